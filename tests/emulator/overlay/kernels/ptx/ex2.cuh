// Emulated: see kernels/ptx/ex2.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline float ex2_approx_ftz_f32(float x) {
  const float result = __builtin_exp2f(x);
  return result < 0x1p-126f ? 0.0f : result;
}

}  // namespace attnlab::ptx
