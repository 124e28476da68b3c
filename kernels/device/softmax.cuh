// Computes the softmax of a warp's scores (warp_product.cuh), row by row: half 0 or 1 of the 16
// rows r, of which four lanes have the columns.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/lg2.cuh"
#include "kernels/ptx/rcp.cuh"
#include "kernels/shared/softmax.h"

namespace attnlab::device {

// RowStates is the online softmax of a lane's rows: the maximum is the same in a row's four lanes,
// the sum may be over the lane's own columns alone. It is a struct since NVRTC 13.0 gives a bare
// array of arrays its initial values in the first rows only: other maxima would begin with 0.
template <i32 kRows>
struct RowStates {
  OnlineSoftmax at[kRows][2];
};

// The maximum that exponentials are relative to is raised only when a row's own has left it behind
// by more than this many powers of two: P may then be up to 2^kSlack, which f16 and bf16 hold as
// exactly as 1, and most tiles spare the rescaling of O. Source: the idea is FlashAttention-4's.
constexpr float kSlack = 8.0f;

// Returns the row's largest score, in all of its four lanes.
template <i32 kRows, i32 kColumns>
__device__ float row_maximum(const Accumulator<kRows, kColumns>& scores, i32 r, i32 half) {
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
__device__ float exponentiate_row(Accumulator<kRows, kColumns>& scores, i32 r, i32 half,
                                  float scale, float reference) {
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

// Calls visit(row, state) once for each of the warp's rows, counted from its first: four lanes have
// a row's state, and each of them looks after another row.
template <i32 kRows, class Visit>
__device__ void for_rows(const OnlineSoftmax (&states)[kRows][2], const Visit& visit) {
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const i32 quarter = lane % 4;
#pragma unroll
  for (i32 r = 0; r < kRows; r += 2) {
    OnlineSoftmax own = states[r][0];
#pragma unroll
    for (i32 i = 1; i < min(4, 2 * (kRows - r)); ++i) {
      if (quarter == i) own = states[r + i / 2][i % 2];
    }
    const i32 own_r = r + quarter / 2;
    if (own_r < kRows) visit(16 * own_r + 8 * (quarter % 2) + lane / 4, own);
  }
}

// Makes the sum of a row NaN whose O is NaN or infinite: is_lost() sees it then. (A P that f16 does
// not hold, of a tile whose maximum is large and negative, makes O so in all columns, and leaves
// the sum finite.) `o`: any of the row's O.
__device__ inline void take_in_output(OnlineSoftmax& state, float o) {
  state.sum = fmaf(0.0f, o, state.sum);
}

// Computes attnlab::lse with the GPU's own logarithm, within 2^-22 of it or of 1.
__device__ inline float lse(const OnlineSoftmax& state) {
  return (state.max + ptx::lg2_approx_ftz_f32(state.sum)) * kLn2;
}

// Returns lse(), but NaN where a row is lost: attend_again() finds the row by that.
__device__ inline float lse_or_mark(const OnlineSoftmax& state) {
  return is_lost(state) ? bit_cast<float>(0x7FFFFFFFu) : lse(state);
}

// Computes attnlab::final_scale, an ulp off at the most.
__device__ inline float final_scale(const OnlineSoftmax& state) {
  return state.sum == 0.0f ? 0.0f : ptx::rcp_approx_ftz_f32(state.sum);
}

}  // namespace attnlab::device
