// Online softmax: the running maximum and sum of a row that is seen tile by tile, and the merge of
// two partial rows. Source: Milakov and Gimelshein, Online normalizer calculation for softmax
// (2018); FlashAttention section 3.1; FlashAttention-2 section 3.1 (unnormalised accumulator).
//
// All exponentials are base 2: scores are multiplied by softmax_scale_log2 = softmax_scale *
// log2(e) beforehand, so that one multiply serves the scale and the change of base.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// State of one row. `max` and the scores it covers are in units of log2; `sum` is of exp2(s - max).
struct OnlineSoftmax {
  float max = -kInfinity;
  float sum = 0.0f;
};

// What exp2 subtracts: the maximum, or 0 for a row that has seen no key yet, because
// (-inf) - (-inf) is NaN while exp2(-inf - 0) is the wanted 0.
ATTNLAB_HD constexpr float finite_max(float row_max) {
  return row_max == -kInfinity ? 0.0f : row_max;
}

// Takes a tile's maximum into the state and returns the factor that brings old sums and old
// accumulators to the new maximum. The caller then adds the tile's sum of exp2(s - max).
ATTNLAB_HD inline float raise_max(OnlineSoftmax& state, float tile_max) {
  const float old_max = state.max;
  state.max = max(old_max, tile_max);
  const float factor = exp2_f32(old_max - finite_max(state.max));
  state.sum *= factor;
  return factor;
}

// Both states cover different keys of one row; the result covers all. factor_a and factor_b bring
// the two unnormalised accumulators to the common maximum.
struct MergedSoftmax {
  OnlineSoftmax state;
  float factor_a = 0.0f;
  float factor_b = 0.0f;
};

ATTNLAB_HD inline MergedSoftmax merge(const OnlineSoftmax& a, const OnlineSoftmax& b) {
  MergedSoftmax merged;
  merged.state.max = max(a.max, b.max);
  const float reference = finite_max(merged.state.max);
  merged.factor_a = exp2_f32(a.max - reference);
  merged.factor_b = exp2_f32(b.max - reference);
  merged.state.sum = a.sum * merged.factor_a + b.sum * merged.factor_b;
  return merged;
}

// Natural log of sum_j exp(softmax_scale * s_j): -inf for a row that saw nothing.
ATTNLAB_HD inline float lse(const OnlineSoftmax& state) {
  return state.sum == 0.0f ? -kInfinity : state.max * kLn2 + log_f32(state.sum);
}

// What the unnormalised accumulator is multiplied with at the end: 0 for a row that saw nothing.
ATTNLAB_HD constexpr float final_scale(const OnlineSoftmax& state) {
  return state.sum == 0.0f ? 0.0f : 1.0f / state.sum;
}

}  // namespace attnlab
