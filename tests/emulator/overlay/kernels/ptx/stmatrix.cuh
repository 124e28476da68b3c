// Emulated: see kernels/ptx/stmatrix.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

struct StmatrixLane {
  u32 address;
  const u32* from;
};

// value(matrix, row, column) of what all lanes hold goes to row `row` in memory.
template <i32 kMatrices, class Value>
void store_matrices(void* const* lanes, const Value& value) {
  for (i32 i = 0; i < kMatrices; ++i) {
    for (i32 row = 0; row < 8; ++row) {
      u16 values[8];
      for (i32 column = 0; column < 8; ++column) values[column] = value(i, row, column);
      const u32 address = static_cast<const StmatrixLane*>(lanes[8 * i + row])->address;
      __builtin_memcpy(emulator::from_shared(address, 16, 16, emulator::Touch::writes), values, 16);
    }
  }
}

inline u16 stmatrix_value(void* const* lanes, i32 matrix, i32 row, i32 column) {
  const u32 pair = static_cast<const StmatrixLane*>(lanes[4 * row + column / 2])->from[matrix];
  return static_cast<u16>(pair >> 16 * (column % 2));
}

inline void stmatrix_x4(u32 address, const u32 (&from)[4]) {
  StmatrixLane lane = {address, from};
  emulator::together(32, "stmatrix", &lane, [](void* const* lanes) {
    store_matrices<4>(lanes, [&](i32 matrix, i32 row, i32 column) {
      return stmatrix_value(lanes, matrix, row, column);
    });
  });
}

template <i32 kMatrices>
void stmatrix_trans(u32 address, const u32 (&from)[kMatrices]) {
  StmatrixLane lane = {address, from};
  emulator::together(32, "stmatrix.trans", &lane, [](void* const* lanes) {
    store_matrices<kMatrices>(lanes, [&](i32 matrix, i32 row, i32 column) {
      return stmatrix_value(lanes, matrix, column, row);
    });
  });
}

inline void stmatrix_x4_trans(u32 address, const u32 (&from)[4]) { stmatrix_trans(address, from); }
inline void stmatrix_x2_trans(u32 address, const u32 (&from)[2]) { stmatrix_trans(address, from); }

}  // namespace attnlab::ptx
