// Applies masks and dropout to accumulators of a warp (warp_product.cuh), either way round: scores
// of rows x keys, as the forward keeps them, or of keys x rows, as the backward does.
#pragma once

#include "kernels/device/bits.h"
#include "kernels/device/team.cuh"
#include "kernels/device/warp_product.cuh"

namespace attnlab::device {

// Columns are taken in words of bits, as many as divide them.
ATTNLAB_HD constexpr i32 bits_of_word(i32 columns) {
  return columns % 32 == 0 ? 32 : columns % 16 == 0 ? 16 : 8;
}

// Clears what `kept` lacks of a lane's elements in a block of 16 columns: element h = 4 * (column /
// 8) + 2 * (row / 8) + column % 2, as dropout.h counts them, has bit h.
template <i32 kRows, i32 kColumns>
__device__ void clear_dropped(Accumulator<kRows, kColumns>& sums, i32 r, i32 c, u32 kept) {
#pragma unroll
  for (i32 h = 0; h < 8; ++h) {
    float& value = sums.at[r][2 * c + h / 4][h % 4];
    value = (kept >> h & 1) != 0 ? value : 0.0f;
  }
}

// Clears what `kept` lacks of a lane's elements of a fragment A, counted likewise.
__device__ inline void clear_dropped(FragmentA& piece, u32 kept) {
#pragma unroll
  for (i32 pair = 0; pair < 4; ++pair) {
    const u32 lower = (kept >> 2 * pair & 1) != 0 ? 0x0000FFFFu : 0u;
    const u32 upper = (kept >> (2 * pair + 1) & 1) != 0 ? 0xFFFF0000u : 0u;
    piece.pairs[pair] &= lower | upper;
  }
}

// Calls hide(r, c, i) for each element [r][c][i] that its row may not see. (row, key) is the first
// of the warp's sums, which are rows x keys.
template <i32 kRows, i32 kColumns, class Hide>
__device__ void for_hidden(const Mask& mask, i64 row, i64 key, const Hide& hide) {
  constexpr i32 kWord = bits_of_word(8 * kColumns);
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
#pragma unroll
  for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      // Rows past the last one are never stored: they may see what it sees.
      const i64 own_row = min<i64>(row + 16 * r + 8 * half + lane / 4, mask.seqlen_q - 1);
      const Range seen = band(mask, own_row);
#pragma unroll
      for (i32 word = 0; word < 8 * kColumns / kWord; ++word) {
        const u32 bits = visible_bits<kWord>(mask, seen, own_row, key + word * kWord);
        const u32 own = bits >> 2 * (lane % 4);
#pragma unroll
        for (i32 c = 0; c < kWord / 8; ++c) {
#pragma unroll
          for (i32 i = 0; i < 2; ++i) {
            if ((own >> (8 * c + i) & 1) == 0) hide(r, word * kWord / 8 + c, 2 * half + i);
          }
        }
      }
    }
  }
}

// Calls hide(r, c, i) for each element that its row may not see, of sums that are keys x rows.
template <i32 kRows, i32 kColumns, class Hide>
__device__ void for_hidden_transposed(const Mask& mask, i64 row, i64 key, const Hide& hide) {
  constexpr i32 kWord = bits_of_word(8 * kColumns);
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
#pragma unroll
  for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const i64 own_key = key + 16 * r + 8 * half + lane / 4;
      const Range seeing = band_rows(mask, own_key);
#pragma unroll
      for (i32 word = 0; word < 8 * kColumns / kWord; ++word) {
        const u32 bits = seeing_bits<kWord>(mask, seeing, own_key, row + word * kWord);
        const u32 own = bits >> 2 * (lane % 4);
#pragma unroll
        for (i32 c = 0; c < kWord / 8; ++c) {
#pragma unroll
          for (i32 i = 0; i < 2; ++i) {
            if ((own >> (8 * c + i) & 1) == 0) hide(r, word * kWord / 8 + c, 2 * half + i);
          }
        }
      }
    }
  }
}

// Returns the bits that a lane needs of a 16x16 block of rows x keys: one Philox call serves the
// eight elements that it holds. (row, key) is the block's first element, multiples of 16.
__device__ inline u32 kept_bits(const Dropout& dropout, i64 slice, i64 row, i64 key) {
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const PhiloxCounter counter = dropout_counter(slice, row + lane / 4, key + 2 * (lane % 4));
  return kept_of_call(dropout, philox(counter, dropout.key));
}

// Returns the bits for 16 rows and 8 * kColumns keys, four bits for each 8 keys. An even number of
// these begins with a block of 16; an odd one may begin or end amid one, whose other bits are lost.
template <i32 kColumns>
__device__ u32 kept_bits_of_columns(const Dropout& dropout, i64 slice, i64 row, i64 key) {
  static_assert(kColumns <= 8, "their bits are those of a word");
  const i32 before = static_cast<i32>(key % 16);
  u32 bits = 0;
#pragma unroll
  for (i32 block = 0; block < ceil_div(kColumns, 2); ++block) {
    bits |= kept_bits(dropout, slice, row, key - before + 16 * block) << 8 * block;
  }
  return bits >> before / 2;
}

// Returns the bits for a block of keys x rows. A lane's key is one of a pair, of which its
// neighbour four lanes on holds the other, and each of the two calls that serve both lanes' two
// rows has half of its numbers for either: each lane makes one and hands over the neighbour's half.
__device__ inline u32 kept_bits_transposed(const Dropout& dropout, i64 slice, i64 row, i64 key) {
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const i32 odd = lane / 4 % 2;  // key of the pair, and row of the two
  const PhiloxCounter counter =
      dropout_counter(slice, row + 2 * (lane % 4) + odd, key + lane / 4 - odd);
  const u32 mine = kept_of_call(dropout, philox(counter, dropout.key));
  const u32 others = __shfl_xor_sync(0xFFFFFFFFu, mine, 4);
  // A call has at bit h: key half h / 4, row half h / 2 % 2, key of the pair h % 2. The lane needs:
  // row half, key half, row of the two.
  u32 bits = 0;
#pragma unroll
  for (i32 h = 0; h < 8; ++h) {
    const i32 row_half = h / 4, key_half = h / 2 % 2, of_two = h % 2;
    const u32 call = of_two == odd ? mine : others;
    bits |= (call >> (4 * key_half + 2 * row_half + odd) & 1) << h;
  }
  return bits;
}

}  // namespace attnlab::device
