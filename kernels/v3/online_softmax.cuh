// Does the online softmax of v3's consumers: S becomes P in registers, and O follows the maximum.
#pragma once

#include "kernels/device/softmax.cuh"
#include "kernels/device/warp_uniform.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Turns scores into exp2(scale * score - reference). Returns whether the reference of any row of
// the warp was raised: O must then be rescaled by `factors`. It takes no branch, since products are
// in flight. The maximum of a row is the same in its four lanes, the sum is over the lane's own
// columns until the end. kIsMasked: rows may see nothing of the tile.
template <bool kIsMasked, i32 kColumns>
__device__ bool softmax_step(float scale, OnlineSoftmax (&rows)[2],
                             device::Accumulator<1, kColumns>& rS, float (&factors)[2]) {
  float tile_max[2];
#pragma unroll
  for (i32 half = 0; half < 2; ++half) tile_max[half] = device::row_maximum(rS, 0, half) * scale;
  const bool raises = device::any_of_warp(tile_max[0] > rows[0].max + device::kSlack ||
                                          tile_max[1] > rows[1].max + device::kSlack);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    OnlineSoftmax& row = rows[half];
    const float old_max = row.max;
    row.max = raises ? fmaxf(old_max, tile_max[half]) : old_max;
    const float reference = kIsMasked ? finite_max(row.max) : row.max;
    factors[half] = ptx::ex2_approx_ftz_f32(old_max - reference);
    row.sum = row.sum * factors[half] + device::exponentiate_row(rS, 0, half, scale, reference);
  }
  return raises;
}

// Finds the largest score, times `scale`, of a lane's two rows, in all of a row's four lanes. Each
// row has two running maxima: beside two warps a scheduler has nothing to do while a maximum waits
// for the one before.
template <i32 kColumns>
__device__ void row_maxima(const device::Accumulator<1, kColumns>& rS, float scale,
                           float (&maxima)[2]) {
  float largest[4] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) largest[i] = fmaxf(largest[i], rS.at[0][c][i]);
  }
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    float& own = maxima[half];
    own = fmaxf(largest[2 * half], largest[2 * half + 1]);
    own = fmaxf(own, __shfl_xor_sync(0xFFFFFFFFu, own, 2));
    own = fmaxf(own, __shfl_xor_sync(0xFFFFFFFFu, own, 1)) * scale;
  }
}

// Turns the scores of a lane's two rows into exp2(scale * score - reference) and returns their sums
// over the lane's own columns: two running sums a row, as above.
template <i32 kColumns>
__device__ void exponentiate_rows(device::Accumulator<1, kColumns>& rS, float scale,
                                  const float (&references)[2], float (&sums)[2]) {
  float partial[4] = {};
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& score = rS.at[0][c][i];
      score = ptx::ex2_approx_ftz_f32(fmaf(score, scale, -references[i / 2]));
      partial[i] += score;
    }
  }
#pragma unroll
  for (i32 half = 0; half < 2; ++half) sums[half] = partial[2 * half] + partial[2 * half + 1];
}

// Does softmax_step()'s work for e4m3: P is shifted, references may lag behind (shift_of_p() and
// slack_of_p() of ForwardConfig), and `maxima`, those of the tile's rows, are in the units that S
// has with `scale`, which may differ from tile to tile.
template <ForwardConfig kConfig, i32 kColumns>
__device__ bool softmax_step_e4m3(float scale, const float (&maxima)[2], OnlineSoftmax (&rows)[2],
                                  device::Accumulator<1, kColumns>& rS, float (&factors)[2]) {
  constexpr float kSlack = kConfig.slack_of_p();
  float references[2], sums[2];
  const bool raises =
      device::any_of_warp(maxima[0] > rows[0].max + kSlack || maxima[1] > rows[1].max + kSlack);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    OnlineSoftmax& row = rows[half];
    const float old_max = row.max;
    row.max = raises ? fmaxf(old_max, maxima[half]) : old_max;
    const float reference = finite_max(row.max);
    factors[half] = ptx::ex2_approx_ftz_f32(old_max - reference);
    references[half] = reference - kConfig.shift_of_p();
  }
  exponentiate_rows(rS, scale, references, sums);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    rows[half].sum = rows[half].sum * factors[half] + sums[half];
  }
  return raises;
}

// Makes P of S before the tile's maxima are known, relative to those of the tiles before, so that
// no exponential waits for them. S stays as it is. Returns whether a maximum is above the old one
// of its row by more than the slack: P is void then, and softmax_step_e4m3() makes it again.
template <ForwardConfig kConfig, i32 kSteps>
__device__ bool exponentiate_ahead(float scale, const OnlineSoftmax (&rows)[2],
                                   const device::Accumulator<1, 4 * kSteps>& rS,
                                   device::FragmentsA<kSteps>& rP, float (&maxima)[2],
                                   float (&sums)[2]) {
  float partial[4] = {}, references[2];
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    references[half] = finite_max(rows[half].max) - kConfig.shift_of_p();
  }
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    float p[4][4];
#pragma unroll
    for (i32 c = 0; c < 4; ++c) {
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        p[c][i] = ptx::ex2_approx_ftz_f32(fmaf(rS.at[0][4 * k + c][i], scale, -references[i / 2]));
        partial[i] += p[c][i];
      }
    }
    device::round_step_to_e4m3(rP.pairs[k], p);
  }
  row_maxima(rS, scale, maxima);
  bool raises = false;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    raises = raises || maxima[half] > rows[half].max + kConfig.slack_of_p();
    sums[half] = partial[2 * half] + partial[2 * half + 1];
  }
  return device::any_of_warp(raises);
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
