// Emulated: see kernels/ptx/red.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void red_add_v4_f32(float* to, const float (&values)[4]) {
  for (i32 i = 0; i < 4; ++i) atomicAdd(to + i, values[i]);
}

inline void red_max_u64_if(bool condition, u64& to, u64 value) {
  using Word = unsigned long long;
  if (condition) atomicMax(reinterpret_cast<Word*>(&to), Word{value});
}

}  // namespace attnlab::ptx
