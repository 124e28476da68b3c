// Implements naive on a GPU, the baseline: what a framework does without a fused kernel. Products
// are cuBLAS's (cuda.cpp); between them, S and P lie in HBM in the storage type, and each pass is a
// kernel that reads and writes whole matrices (schedule.h lists them). Here are mask, softmax and
// dropout of the forward pass. All are bound by HBM, so the one aim is to keep enough bytes in
// flight: 16-byte accesses, rows in registers from the load to the store.
#pragma once

#include "kernels/naive/passes.cuh"
#include "kernels/shared/softmax.h"

namespace attnlab::naive {

// Hide puts -inf where the mask hides.
class Hide {
 public:
  __device__ Hide(const Params& /*params*/, const Mask& mask, const RowPair& rows)
      : mask_(mask), row_(rows.row), seen_{band(mask, rows.row), band(mask, rows.row + 8)} {}

  __device__ void operator()(i64 column, Values (&values)[2]) const {
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      if (i == 1 && row_ + 8 >= mask_.seqlen_q) return;  // a block pattern has no such row
      const u32 visible =
          device::visible_bits<kChunkColumns>(mask_, seen_[i], row_ + 8 * i, column);
#pragma unroll
      for (i32 j = 0; j < kChunkColumns; ++j) {
        if ((visible >> j & 1) == 0) values[i].at[j] = -kInfinity;
      }
    }
  }

 private:
  const Mask& mask_;
  i64 row_;
  Range seen_[2];
};

// Sets S = -inf where the mask hides, in place.
template <class T>
__device__ void mask_rows(const Params& params, T* gS) {
  for_each_tile<Hide>(params, gS, gS);
}

// Returns eight scores, -inf past the end of the row.
template <class T>
__device__ Values load_scores(const T* gRow, i64 column, i64 columns) {
  Values scores = decode(device::load_chunk(gRow + column));
#pragma unroll
  for (i32 j = 0; j < kChunkColumns; ++j) {
    if (column + j >= columns) scores.at[j] = -kInfinity;
  }
  return scores;
}

__device__ inline float largest(const Values& scores) {
  float result = scores.at[0];
#pragma unroll
  for (i32 j = 1; j < kChunkColumns; ++j) result = fmaxf(result, scores.at[j]);
  return result;
}

// In f16 no score is so large that its product with log2(e) has no fp32 number near it (is_large).
template <class T>
constexpr bool kHoldsLargeScores = true;
template <>
constexpr bool kHoldsLargeScores<device::F16> = false;

// Turns scores whose maximum is large (is_large) into differences from it before they are
// multiplied. Returns what exponents subtract of the product then.
template <class T, i32 kChunks>
__device__ float subtract_large(Values (&scores)[kChunks], float row_max) {
  const float reference = row_max * kLog2E;
  if constexpr (!kHoldsLargeScores<T>) return row_max == -kInfinity ? 0.0f : reference;
  if (!is_large(reference)) return reference;
#pragma unroll
  for (Values& chunk : scores) {
#pragma unroll
    for (float& score : chunk.at) score -= finite_max(row_max);
  }
  return 0.0f;
}

// Turns scores into exp(score - max) and returns their sum; `reference` is log2(e) * max.
__device__ inline float exponentiate(Values& scores, float reference) {
  float sum = 0.0f;
#pragma unroll
  for (i32 j = 0; j < kChunkColumns; ++j) {
    scores.at[j] = exp2_f32(scores.at[j] * kLog2E - reference);
    sum += scores.at[j];
  }
  return sum;
}

// P is 0 where nothing was seen.
__device__ inline Values times(Values values, float factor) {
#pragma unroll
  for (i32 j = 0; j < kChunkColumns; ++j) values.at[j] *= factor;
  return values;
}

// Stores lse; gLse is null in 16 bits: scores rounded to the storage type do not have it.
__device__ inline void store_lse(const Params& params, const TeamRow& team, float row_max,
                                 float row_sum, float* gLse) {
  if (gLse == nullptr || team.thread != 0) return;
  gLse[params.shape.row_statistic_offset(team.batch, team.head, team.row)] =
      row_sum == 0.0f ? -kInfinity : row_max + log_f32(row_sum);
}

// Computes P = softmax(S), with a row's scores in registers.
template <RowClass kClass, class T>
__device__ void softmax_short_rows(const Params& params, const T* gS, T* gP, float* gLse) {
  using namespace device;
  const TeamRow team = team_row<kClass>(params);
  if (!team.exists()) return;  // the whole team
  const i64 columns = team.mask.seqlen_k;
  constexpr i64 kStep = kClass.threads * kChunkColumns;
  const i64 first = team.thread * kChunkColumns;

  Values rP[kClass.chunks];  // (chunks, 8): the thread's scores, then probabilities
  float row_max = -kInfinity;
#pragma unroll
  for (i32 i = 0; i < kClass.chunks; ++i) {
    const i64 column = first + i * kStep;
    if (column >= columns) continue;
    rP[i] = load_scores(gS + team.offset, column, columns);
    row_max = fmaxf(row_max, largest(rP[i]));
  }
  row_max = reduce_team<Maximum, kClass.threads>(row_max);

  const float reference = subtract_large<T>(rP, row_max);
  float row_sum = 0.0f;
#pragma unroll
  for (i32 i = 0; i < kClass.chunks; ++i) {
    if (first + i * kStep < columns) row_sum += exponentiate(rP[i], reference);
  }
  row_sum = reduce_team<Sum, kClass.threads>(row_sum);

  const float scale = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
#pragma unroll
  for (i32 i = 0; i < kClass.chunks; ++i) {
    const i64 column = first + i * kStep;
    if (column < columns) store_chunk(encode<T>(times(rP[i], scale)), gP + team.offset + column);
  }
  store_lse(params, team, row_max, row_sum, gLse);
}

// Computes P = softmax(S), for rows that no block holds: goes over the row once for maximum and
// sum, online, and once for P.
template <class T>
__device__ void softmax_long_rows(const Params& params, const T* gS, T* gP, float* gLse) {
  using namespace device;
  const TeamRow team = team_row<kLongRows>(params);
  if (!team.exists()) return;
  const i64 columns = team.mask.seqlen_k;
  constexpr i64 kStep = kLongRows.threads * kChunkColumns;
  const i64 first = team.thread * kChunkColumns;

  float thread_max = -kInfinity;
  float thread_sum = 0.0f;
  for (i64 column = first; column < columns; column += kStep) {
    Values scores[] = {load_scores(gS + team.offset, column, columns)};
    const float chunk_max = largest(scores[0]);
    if (chunk_max > thread_max) {
      thread_sum *= exp2_f32((thread_max - chunk_max) * kLog2E);
      thread_max = chunk_max;
    }
    const float reference = subtract_large<T>(scores, thread_max);
    thread_sum += exponentiate(scores[0], reference);
  }
  const float row_max = reduce_team<Maximum, kLongRows.threads>(thread_max);
  const float factor = exp2_f32((thread_max - finite_max(row_max)) * kLog2E);
  const float row_sum = reduce_team<Sum, kLongRows.threads>(thread_sum * factor);

  const float scale = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
  for (i64 column = first; column < columns; column += kStep) {
    Values p[] = {load_scores(gS + team.offset, column, columns)};
    exponentiate(p[0], subtract_large<T>(p, row_max));
    store_chunk(encode<T>(times(p[0], scale)), gP + team.offset + column);
  }
  store_lse(params, team, row_max, row_sum, gLse);
}

template <RowClass kClass, class T>
__device__ void softmax_rows(const Params& params, const T* gS, T* gP, float* gLse) {
  if constexpr (kClass.chunks > 0) {
    softmax_short_rows<kClass>(params, gS, gP, gLse);
  } else {
    softmax_long_rows(params, gS, gP, gLse);
  }
}

}  // namespace attnlab::naive
