// Declares v3 on a GPU: FlashAttention-3's forward with wgmma and bulk copies, sm_90a alone.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::v3 {

extern const Implementation kCuda;

}  // namespace attnlab::v3
