// Masks that are bands (causal, windows, padding) on the accumulator of S.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// The lowest `count` of 32 bits.
__device__ inline u32 lowest_bits(i32 count) {
  return count >= 32 ? ~0u : (1u << max(count, 0)) - 1;
}

// Applies the band mask to this lane's rows, without a branch, since products may be in flight. The
// warp's scores are of rows from `row` of the work item on and of keys from `key` on; unless kLeft,
// the band has no left border. What a row sees of the lane's columns becomes bits of a word, since
// one instruction moves several bits to predicates. Rows past the last one are never stored.
template <bool kLeft, i32 kColumns>
__device__ void apply_band_mask(const ForwardWorkTile& sWorkTile, i32 row, i32 key,
                                device::Accumulator<1, kColumns>& rS) {
  constexpr i32 kWord = 16;  // pairs of columns, of 2 bits each
  const i32 lane = static_cast<i32>(threadIdx.x) % device::kWarp;
  const i32 first = key + 2 * (lane % 4);
  // Counts the lane's columns, two of eight, that lie before a border.
  const auto columns_before = [&](i32 border) {
    const i32 columns = min(8 * kColumns, max(0, border - first));
    return columns / 8 * 2 + min(columns % 8, 2);
  };
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const i32 own_row = row + 8 * half + lane / 4;
    const i32 begin = kLeft ? columns_before(sWorkTile.band_begin + own_row) : 0;
    const i32 end = columns_before(min(sWorkTile.band_end + own_row, sWorkTile.valid_k));
#pragma unroll
    for (i32 c = 0; c < kColumns; c += kWord) {
      u32 seen = lowest_bits(end - 2 * c);
      if constexpr (kLeft) seen &= ~lowest_bits(begin - 2 * c);
#pragma unroll
      for (i32 i = 0; i < 2 * min(kWord, kColumns - c); ++i) {
        float& score = rS.at[0][c + i / 2][2 * half + i % 2];
        score = (seen & 1u << i) != 0 ? score : -kInfinity;
      }
    }
  }
}

}  // namespace attnlab::v3
