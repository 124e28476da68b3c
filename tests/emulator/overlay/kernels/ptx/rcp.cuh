// Emulated: see kernels/ptx/rcp.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline float rcp_approx_ftz_f32(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float result = 1.0f / (magnitude < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x);
  return (result < 0.0f ? -result : result) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : result;
}

}  // namespace attnlab::ptx
