// Does online softmax: the running maximum and sum of a row seen tile by tile, and the merge of two
// partial rows. Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018);
// FlashAttention section 3.1; FlashAttention-2 section 3.1 (unnormalised accumulator).
//
// All exponentials are base 2: scores are multiplied by softmax_scale_log2 = softmax_scale *
// log2(e) beforehand, so that one multiply serves the scale and the change of base.
//
// A score times its scale, less the maximum, is one fused multiply-add: the maximum is rounded, the
// product is not. What the rounding leaves is half of the distance of fp32 numbers near the
// maximum, the same for all keys of a row. What it does depends on the size of the maximum.
//
// Below kLostMax (2^24) it is less than 1 and cancels: tiles go their usual way.
//
// From there to kLargeMax (2^28) it grows to 8, harmless in fp32 but too much for a P of 16 bits: a
// GPU's row is lost (is_lost) and attended to again with P in fp32.
//
// From 2^28 on it is 16 and more, and later no P is left at all. But there two scores that differ
// are 16 apart, so the smaller has a P below 2^-16, however exact the scale: such rows take the
// next power of two (scale_of_row), times which every score is exact.
//
// The tiles of a GPU's kernels do not look for such rows. What became of them shows at their end: a
// lost row's lse is stored as NaN, and kernels/device/attend_again.cuh puts it right.
#pragma once

#include "kernels/shared/base.h"
#include "kernels/shared/shape.h"

namespace attnlab {

#if defined(__CUDACC__)
ATTNLAB_HD inline float abs_f32(float x) { return fabsf(x); }
ATTNLAB_HD inline float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
#else
inline float abs_f32(float x) { return __builtin_fabsf(x); }
// Computes in double, where the product is exact: processors without FMA would call libm.
inline float fma_f32(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) +
                            static_cast<double>(c));
}
#endif

constexpr float kLargeMax = bit_cast<float>(0x4D800000u);  // 2^28

ATTNLAB_HD inline bool is_large(float row_max) { return abs_f32(row_max) >= kLargeMax; }

// Returns the power of two above the scale: as a large score is then no nearer to 0 than by the
// scale itself, the order of all scores stays.
ATTNLAB_HD constexpr float power_above(float scale_log2) {
  return bit_cast<float>((bit_cast<u32>(scale_log2) & 0xFF800000u) + 0x00800000u);
}

ATTNLAB_HD constexpr float inverse_of_power_above(float scale_log2) {
  return bit_cast<float>(0x7F000000u - bit_cast<u32>(power_above(scale_log2)));
}

// Returns the scale of scores in a row with this maximum (in units of log2).
ATTNLAB_HD inline float scale_of_row(float row_max, float scale_log2) {
  return is_large(row_max) ? power_above(scale_log2) : scale_log2;
}

// Returns the maximum of a row in units of log2, from its largest score.
ATTNLAB_HD inline float scaled_max(float score, float scale_log2) {
  return score * scale_of_row(score * scale_log2, scale_log2);
}

// OnlineSoftmax is a row's state. `max` and scores are in units of log2; `sum` sums exp2(s - max).
struct OnlineSoftmax {
  float max = -kInfinity;
  float sum = 0.0f;
};

// Returns what exp2 subtracts: the maximum, or 0 for a row that has seen no key yet, because (-inf)
// - (-inf) is NaN while exp2(-inf - 0) is the wanted 0.
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

// Returns the exponent of a score in a row with this maximum.
ATTNLAB_HD inline float exponent(float score, float row_max, float scale_log2) {
  return fma_f32(score, scale_of_row(row_max, scale_log2), -finite_max(row_max));
}

// Returns how much a unit of the maximum is in natural logarithms.
ATTNLAB_HD inline float unit_of_max(float row_max, const Shape& shape) {
  const float inverse = inverse_of_power_above(shape.softmax_scale_log2);
  return is_large(row_max) ? shape.softmax_scale * inverse : kLn2;
}

// Returns the natural log of sum_j exp(softmax_scale * s_j): -inf for a row that saw nothing.
ATTNLAB_HD inline float lse(const OnlineSoftmax& state, const Shape& shape) {
  if (state.sum == 0.0f) return -kInfinity;
  return fma_f32(state.max, unit_of_max(state.max, shape), log_f32(state.sum));
}

// A GPU computes a row once more by itself from this size of its maximum on: the rounding leaves
// more than P can bear in f16, and earlier tiles, whose maximum may have been as large and
// negative, have made its sum infinite or NaN.
constexpr float kLostMax = bit_cast<float>(0x4B800000u);  // 2^24

ATTNLAB_HD inline bool is_lost(const OnlineSoftmax& state) {
  const bool is_sound = abs_f32(state.max) < kLostMax && state.sum < kInfinity;
  return state.max > -kInfinity && !is_sound;
}

// P of a backward that has lse alone is exact to 2^-14 while logits are below this. lse is one fp32
// number: of a logit of 2^20 its rounding is 6 % of P, of 2^30 it is all of P.
constexpr float kLseHolds = 1024.0f;

ATTNLAB_HD inline bool lse_holds(float lse) {
  const float size = abs_f32(lse);
  return size < kLseHolds || size == kInfinity;  // -inf: a row that saw nothing
}

// Returns the softmax of a row for its backward: P = exp2(score - max) / sum. `saved` is what the
// forward left of it, which is read only where lse does not hold the logits.
ATTNLAB_HD inline OnlineSoftmax softmax_of_row(float lse, const OnlineSoftmax* saved) {
  if (!lse_holds(lse)) return *saved;
  return {lse * kLog2E, lse == -kInfinity ? 0.0f : 1.0f};
}

// Returns the last factor of the unnormalised accumulator: 0 for a row that saw nothing.
ATTNLAB_HD constexpr float final_scale(const OnlineSoftmax& state) {
  return state.sum == 0.0f ? 0.0f : 1.0f / state.sum;
}

}  // namespace attnlab
