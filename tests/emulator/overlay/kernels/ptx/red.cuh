// Emulated: see kernels/ptx/red.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void red_add_v4_f32(float* to, const float (&values)[4]) {
  for (i32 i = 0; i < 4; ++i) atomicAdd(to + i, values[i]);
}

}  // namespace attnlab::ptx
