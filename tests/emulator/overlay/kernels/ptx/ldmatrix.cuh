// Emulated: see kernels/ptx/ldmatrix.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

struct LdmatrixLane {
  u32* to;
  u32 address;
};

// element(i, row, column) of matrix i goes to the lane that holds (row, column) of what is wanted.
template <bool kTransposed>
void ldmatrix(void* const* arguments) {
  const auto lane = [&](i32 l) -> const LdmatrixLane& {
    return *static_cast<const LdmatrixLane*>(arguments[l]);
  };
  for (i32 i = 0; i < 4; ++i) {
    u16 matrix[8][8];
    for (i32 row = 0; row < 8; ++row) {
      __builtin_memcpy(
          matrix[row],
          emulator::from_shared(lane(8 * i + row).address, 16, 16, emulator::Touch::reads), 16);
    }
    for (i32 l = 0; l < 32; ++l) {
      const i32 row = l / 4, column = l % 4 * 2;
      const u32 first = kTransposed ? matrix[column][row] : matrix[row][column];
      const u32 second = kTransposed ? matrix[column + 1][row] : matrix[row][column + 1];
      lane(l).to[i] = first | second << 16;
    }
  }
}

inline void ldmatrix_x4(u32 (&to)[4], u32 address) {
  LdmatrixLane lane = {to, address};
  emulator::together(32, "ldmatrix", &lane, ldmatrix<false>);
}

inline void ldmatrix_x4_trans(u32 (&to)[4], u32 address) {
  LdmatrixLane lane = {to, address};
  emulator::together(32, "ldmatrix.trans", &lane, ldmatrix<true>);
}

}  // namespace attnlab::ptx
