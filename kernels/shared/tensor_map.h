// Holds what a bulk tensor copy knows of a tensor in global memory; only the host makes it.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// TensorMap is opaque, as the driver makes it (CUtensorMap). A kernel takes it as a parameter:
// const __grid_constant__ TensorMap.
struct alignas(64) TensorMap {
  u64 words[16];
};
static_assert(sizeof(TensorMap) == 128, "the hardware's tensor maps have 128 bytes");

}  // namespace attnlab
