// Does the backward of a warp's softmax: S becomes P once more, and dP becomes dS. Unless a
// function says otherwise scores are keys x rows (warp_product.cuh), S^T, and of 8 rows c a lane
// has 8c + 2t and 8c + 2t + 1.
//
// recompute_p_of_lse and softmax_backward take a block at a time, and their callers loop: with the
// loops in here NVRTC 13.0 orders the callers' accumulators differently, and ptxas allocates other
// registers.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/lg2.cuh"
#include "kernels/shared/softmax.h"

namespace attnlab::device {

// Computes P = exp(S - lse) of block c of 8 columns, either way round: log2_lse(i) is, in units of
// log2, that of the row of the lane's element i of four. In keys x rows that is row i % 2, in rows
// x keys row i / 2.
template <i32 kKeys, i32 kRows, class Log2Lse>
__device__ void recompute_p_of_lse(Accumulator<kKeys, kRows>& scores, i32 c, float scale_log2,
                                   const Log2Lse& log2_lse) {
#pragma unroll
  for (i32 r = 0; r < kKeys; ++r) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& score = scores.at[r][c][i];
      score = ptx::ex2_approx_ftz_f32(fmaf(score, scale_log2, -log2_lse(i)));
    }
  }
}

// Computes P = exp(S - max) / sum: state_of(row) is what the forward left of one of the lane's
// rows, counted from its first.
template <i32 kKeys, i32 kRows, class StateOf>
__device__ void recompute_p_of_states(Accumulator<kKeys, kRows>& scores, float scale_log2,
                                      const StateOf& state_of) {
#pragma unroll
  for (i32 c = 0; c < kRows; ++c) {
#pragma unroll
    for (i32 odd = 0; odd < 2; ++odd) {
      asm volatile("" ::: "memory");  // one state at a time, for the registers
      const OnlineSoftmax state = state_of(8 * c + odd);
      const float scale = scale_of_row(state.max, scale_log2);
      // Infinity makes P 0 of rows that saw nothing, or do not exist.
      const float log_sum = state.sum == 0.0f ? kInfinity : ptx::lg2_approx_ftz_f32(state.sum);
#pragma unroll
      for (i32 r = 0; r < kKeys; ++r) {
#pragma unroll
        for (i32 i = odd; i < 4; i += 2) {
          float& score = scores.at[r][c][i];
          score = ptx::ex2_approx_ftz_f32(fmaf(score, scale, -finite_max(state.max)) - log_sum);
        }
      }
    }
  }
}

// Computes dS = P (Z dP - delta) of an element: `ds` has dP, `p` becomes Z P but for keep_scale.
template <bool kDropout>
__device__ void softmax_backward_of(float& p, float& ds, float delta, bool is_kept,
                                    float keep_scale) {
  if constexpr (kDropout) {
    ds = p * ((is_kept ? ds * keep_scale : 0.0f) - delta);
    p = is_kept ? p : 0.0f;
  } else {
    ds = p * (ds - delta);
  }
}

// Computes dS = P (Z dP - delta) of the 16 keys r and the 16 rows c: rDS has dP and becomes dS, rP
// becomes Z P but for keep_scale. deltas are those of the lane's rows; bit h of `kept`, as
// dropout.h counts them, is what dropout keeps.
template <bool kDropout, i32 kKeys, i32 kRows>
__device__ void softmax_backward(Accumulator<kKeys, kRows>& rP, Accumulator<kKeys, kRows>& rDS,
                                 i32 r, i32 c, const float2 (&deltas)[2], u32 kept,
                                 float keep_scale) {
#pragma unroll
  for (i32 h = 0; h < 8; ++h) {
    float& p = rP.at[r][2 * c + h / 4][h % 4];
    float& ds = rDS.at[r][2 * c + h / 4][h % 4];
    const float delta = h % 2 == 0 ? deltas[h / 4].x : deltas[h / 4].y;
    softmax_backward_of<kDropout>(p, ds, delta, (kept >> h & 1) != 0, keep_scale);
  }
}

// Computes the same for scores that are rows x keys: deltas are those of a lane's two rows, and
// `kept` has four bits for each 8 keys.
template <bool kDropout, i32 kKeys>
__device__ void softmax_backward_of_rows(Accumulator<1, kKeys>& rP, Accumulator<1, kKeys>& rDS,
                                         const float (&deltas)[2], u32 kept, float keep_scale) {
#pragma unroll
  for (i32 c = 0; c < kKeys; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      softmax_backward_of<kDropout>(rP.at[0][c][i], rDS.at[0][c][i], deltas[i / 2],
                                    (kept >> (4 * c + i) & 1) != 0, keep_scale);
    }
  }
}

}  // namespace attnlab::device
