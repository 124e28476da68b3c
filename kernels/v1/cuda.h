// Declares v1 on a GPU: FlashAttention's Algorithms 1, 2, 4 and 5 with mma.sync and cp.async, sm_80
// and later.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::v1 {

extern const Implementation kCuda;

}  // namespace attnlab::v1
