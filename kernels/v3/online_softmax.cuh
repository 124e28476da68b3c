// Does the online softmax of v3's consumers: S becomes P in registers, and O follows the maximum.
#pragma once

#include "kernels/device/softmax.cuh"
#include "kernels/device/warp_uniform.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/shared/quantise.h"
#include "kernels/shared/softmax.h"

namespace attnlab::v3 {

// Turns scores into exp2(scale * score - reference + kShift). Returns whether the reference of any
// row of the warp was raised: O must then be rescaled by `factors`. It takes no branch, since
// products are in flight. The maximum of a row is the same in its four lanes, the sum is over the
// lane's own columns until the end. kIsMasked: rows may see nothing of the tile. The reference may
// lag behind a row's maximum by kSlack, or of a shifted P by kSlackOfP. Maxima are compared in
// scaled units, so `scale` may differ from tile to tile.
template <bool kIsMasked, i32 kShift = 0, i32 kColumns>
__device__ bool softmax_step(float scale, OnlineSoftmax (&rows)[2],
                             device::Accumulator<1, kColumns>& rS, float (&factors)[2]) {
  constexpr float kOwnSlack = kShift > 0 ? kSlackOfP : device::kSlack;
  float tile_max[2];
#pragma unroll
  for (i32 half = 0; half < 2; ++half) tile_max[half] = device::row_maximum(rS, 0, half) * scale;
  const bool raises = device::any_of_warp(tile_max[0] > rows[0].max + kOwnSlack ||
                                          tile_max[1] > rows[1].max + kOwnSlack);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    OnlineSoftmax& row = rows[half];
    const float old_max = row.max;
    row.max = raises ? fmaxf(old_max, tile_max[half]) : old_max;
    const float reference = kIsMasked ? finite_max(row.max) : row.max;
    factors[half] = ptx::ex2_approx_ftz_f32(old_max - reference);
    row.sum = row.sum * factors[half] +
              device::exponentiate_row(rS, 0, half, scale, reference - static_cast<float>(kShift));
  }
  return raises;
}

// Multiplies each row by its factor.
template <i32 kColumns>
__device__ void scale_rows(device::Accumulator<1, kColumns>& rO, const float (&factors)[2]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) rO.at[0][c][i] *= factors[i / 2];
  }
}

// Rescales O to the new references of its rows. A factor of 0 gives 0 even of an infinite O, which
// a tile leaves whose maximum is large and negative (attend_again.cuh).
template <i32 kColumns>
__device__ void rescale_rows(device::Accumulator<1, kColumns>& rO, const float (&factors)[2]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& o = rO.at[0][c][i];
      o = factors[i / 2] == 0.0f ? 0.0f : o * factors[i / 2];
    }
  }
}

}  // namespace attnlab::v3
