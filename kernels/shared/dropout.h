// Keys dropout by position, laid out like an mma accumulator: one Philox call serves the 8 elements
// that one thread holds of a 16x16 block of P (rows r and r + 8, columns 2j, 2j + 1, 2j + 8, 2j +
// 9). So every kernel and every tile size sees one mask for one seed. None is stored: a backward
// draws it again. row and col count within the batch entry, also in packed layouts.
//
// counter = {col / 16, row / 16, batch * num_heads_q + head, 4 * (row % 8) + (col % 8) / 2}
// key     = {seed low, seed high}
// element h = 4 * (col % 16 / 8) + 2 * (row % 16 / 8) + col % 2 of the eight 16-bit numbers, low
// half first; dropped iff it is below T = round(65536 * p); kept elements are scaled by 65536 /
// (65536 - T).
#pragma once

#include "kernels/shared/philox.h"

namespace attnlab {

struct Dropout {
  PhiloxKey key;
  u32 threshold = 0;  // T; 0: nothing is dropped
  float keep_scale = 1.0f;
};

// Takes p in [0, 1); a p that rounds to T = 65536 would drop everything and is the caller's error
// to refuse.
ATTNLAB_HD constexpr Dropout make_dropout(double p, u64 seed) {
  const u32 threshold = static_cast<u32>(65536.0 * p + 0.5);
  return {.key = philox_key(seed),
          .threshold = threshold,
          .keep_scale = static_cast<float>(65536.0 / (65536.0 - threshold))};
}

// Returns the counter of (row, col)'s eight elements; slice = batch * num_heads_q + head.
ATTNLAB_HD constexpr PhiloxCounter dropout_counter(i64 slice, i64 row, i64 col) {
  return {.x = static_cast<u32>(col / 16),
          .y = static_cast<u32>(row / 16),
          .z = static_cast<u32>(slice),
          .w = static_cast<u32>(4 * (row % 8) + (col % 8) / 2)};
}

// Returns which of the eight 16-bit numbers of a Philox result belongs to (row, col).
ATTNLAB_HD constexpr u32 dropout_half(i64 row, i64 col) {
  return static_cast<u32>(4 * (col % 16 / 8) + 2 * (row % 16 / 8) + col % 2);
}

ATTNLAB_HD constexpr u32 select_half(const PhiloxCounter& words, u32 half) {
  const u32 low_pair = half / 2 % 2 == 0 ? words.x : words.y;
  const u32 high_pair = half / 2 % 2 == 0 ? words.z : words.w;
  const u32 word = half < 4 ? low_pair : high_pair;
  return half % 2 == 0 ? word & 0xFFFFu : word >> 16;
}

ATTNLAB_HD constexpr bool is_kept(const Dropout& dropout, i64 slice, i64 row, i64 col) {
  const PhiloxCounter words = philox(dropout_counter(slice, row, col), dropout.key);
  return select_half(words, dropout_half(row, col)) >= dropout.threshold;
}

}  // namespace attnlab
