// Emulated: see kernels/ptx/stmatrix.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

struct StmatrixLane {
  u32 address;
  const u32* from;
};

inline void stmatrix_x4(u32 address, const u32 (&from)[4]) {
  StmatrixLane lane = {address, from};
  emulator::together(32, "stmatrix", &lane, [](void* const* lanes) {
    const auto lane = [&](i32 l) -> const StmatrixLane& {
      return *static_cast<const StmatrixLane*>(lanes[l]);
    };
    for (i32 i = 0; i < 4; ++i) {
      for (i32 row = 0; row < 8; ++row) {
        u32 pairs[4];
        for (i32 t = 0; t < 4; ++t) pairs[t] = lane(4 * row + t).from[i];
        __builtin_memcpy(
            emulator::from_shared(lane(8 * i + row).address, 16, 16, emulator::Touch::writes),
            pairs, 16);
      }
    }
  });
}

}  // namespace attnlab::ptx
