// Applies masks that are bands (causal, windows, padding) to accumulators of scores, without a
// branch, since products may be in flight.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Returns a word with the lowest `count` of 32 bits set.
__device__ inline u32 lowest_bits(i32 count) {
  return count >= 32 ? ~0u : (1u << max(count, 0)) - 1;
}

// Counts the columns of a lane, two of eight, that lie before a border, which is given from its
// first column on.
template <i32 kColumns>
__device__ i32 columns_before(i32 border) {
  const i32 columns = min(8 * kColumns, max(0, border));
  return columns / 8 * 2 + min(columns % 8, 2);
}

// Sets all of a lane's columns but [begin, end) to `hidden`, in one of its two rows; unless kLeft
// there is no `begin`. What is seen becomes bits of a word, since one instruction moves several
// bits to predicates.
template <bool kLeft, i32 kColumns>
__device__ void hide_columns(device::Accumulator<1, kColumns>& scores, i32 half, i32 begin, i32 end,
                             float hidden) {
  constexpr i32 kWord = 16;  // pairs of columns, of 2 bits each
#pragma unroll
  for (i32 c = 0; c < kColumns; c += kWord) {
    u32 seen = lowest_bits(end - 2 * c);
    if constexpr (kLeft) seen &= ~lowest_bits(begin - 2 * c);
#pragma unroll
    for (i32 i = 0; i < 2 * min(kWord, kColumns - c); ++i) {
      float& score = scores.at[0][c + i / 2][2 * half + i % 2];
      score = (seen & 1u << i) != 0 ? score : hidden;
    }
  }
}

// Applies the mask to S. The warp's scores are of rows from `row` of the work item on and of keys
// from `key` on; unless kLeft, the band has no left border. Rows past the last one are never
// stored.
template <bool kLeft, i32 kColumns>
__device__ void apply_band_mask(const ForwardWorkTile& sWorkTile, i32 row, i32 key,
                                device::Accumulator<1, kColumns>& rS) {
  const i32 lane = static_cast<i32>(threadIdx.x) % device::kWarp;
  const i32 first = key + 2 * (lane % 4);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const i32 own_row = row + 8 * half + lane / 4;
    const i32 begin = kLeft ? columns_before<kColumns>(sWorkTile.band_begin + own_row - first) : 0;
    const i32 end =
        columns_before<kColumns>(min(sWorkTile.band_end + own_row, sWorkTile.valid_k) - first);
    hide_columns<kLeft>(rS, half, begin, end, -kInfinity);
  }
}

// Applies the mask to P of a backward, from `row` of its batch entry and `key` of its tile on. Rows
// past the last one have P 0 already.
template <i32 kColumns>
__device__ void apply_band_mask(const BackwardWorkTile& sWorkTile, i32 row, i32 key,
                                device::Accumulator<1, kColumns>& rP) {
  const i32 lane = device::opaque_lane();
  const i32 first = key + 2 * (lane % 4);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const i32 own_row = row + 8 * half + lane / 4;
    const i32 begin = columns_before<kColumns>(own_row - sWorkTile.band_end + 1 - first);
    const i32 end = columns_before<kColumns>(
        min(own_row - sWorkTile.band_begin + 1, sWorkTile.valid_keys) - first);
    hide_columns<true>(rP, half, begin, end, 0.0f);
  }
}

// Applies the mask to P^T, which is keys x rows. The warp's are of keys from `key` of the work item
// on and of rows from `row` on. P of rows past the last one is 0 already.
template <i32 kColumns>
__device__ void apply_transposed_band_mask(const BackwardWorkTile& sWorkTile, i32 key, i32 row,
                                           device::Accumulator<1, kColumns>& rP) {
  const i32 lane = device::opaque_lane();
  const i32 first = row + 2 * (lane % 4);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const i32 own_key = key + 8 * half + lane / 4;
    const i32 begin = columns_before<kColumns>(sWorkTile.band_begin + own_key - first);
    const i32 end = columns_before<kColumns>(sWorkTile.band_end + own_key - first);
    hide_columns<true>(rP, half, begin, own_key < sWorkTile.valid_keys ? end : 0, 0.0f);
  }
}

}  // namespace attnlab::v3
