// The softmax of a warp's scores (warp_product.cuh), row by row: half 0 or 1 of the 16 rows r, of
// which four lanes have the columns.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/ptx/ex2.cuh"

namespace attnlab::device {

// The row's largest score, in all of its four lanes.
template <i32 kRows, i32 kColumns>
__device__ float row_maximum(const Sums<kRows, kColumns>& scores, i32 r, i32 half) {
  float largest = -kInfinity;
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
    largest = fmaxf(largest, fmaxf(scores.at[r][c][2 * half], scores.at[r][c][2 * half + 1]));
  }
  largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
  return fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
}

// Scores become exp2(scale * score - reference); returns the sum over the lane's own columns.
template <i32 kRows, i32 kColumns>
__device__ float exponentiate_row(Sums<kRows, kColumns>& scores, i32 r, i32 half, float scale,
                                  float reference) {
  float sum = 0.0f;
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 2 * half; i < 2 * half + 2; ++i) {
      scores.at[r][c][i] = ptx::ex2_approx_ftz_f32(fmaf(scores.at[r][c][i], scale, -reference));
      sum += scores.at[r][c][i];
    }
  }
  return sum;
}

}  // namespace attnlab::device
