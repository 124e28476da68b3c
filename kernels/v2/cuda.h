// Declares v2 on a GPU: FlashAttention-2's passes with mma.sync and cp.async, sm_80 and later.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::v2 {

extern const Implementation kCuda;

}  // namespace attnlab::v2
