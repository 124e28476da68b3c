// Implements naive's backward on a GPU, from the P that forward saved. The products are cuBLAS's
// (cuda.cpp); here is the backward of softmax, which like softmax keeps a row in registers, and the
// last step of products that had to be summed over query heads.
#pragma once

#include "kernels/naive/passes.cuh"

namespace attnlab::naive {

// Where P is 0, a key has no part in its row, however large its dP: 0 * inf must not enter the sum
// (dP of a hidden key may overflow a 16-bit type). That includes the end of the last chunk: softmax
// left P = 0 there.
__device__ inline void clear_unseen(const Values& p, Values& dp) {
#pragma unroll
  for (i32 j = 0; j < kChunkColumns; ++j) dp.at[j] = p.at[j] == 0.0f ? 0.0f : dp.at[j];
}

__device__ inline float dot(const Values& p, const Values& dp) {
  float sum = 0.0f;
#pragma unroll
  for (i32 j = 0; j < kChunkColumns; ++j) sum += p.at[j] * dp.at[j];
  return sum;
}

template <class T>
__device__ float clear_and_dot(const device::Chunk<T>& rP, const device::Chunk<T>& rdP) {
  const Values p = decode(rP);
  Values dp = decode(rdP);
  clear_unseen(p, dp);
  return dot(p, dp);
}

// Computes dS = P (dP - rowsum(P dP)).
template <class T>
__device__ device::Chunk<T> score_gradient(const device::Chunk<T>& rP, const device::Chunk<T>& rdP,
                                           float row_sum) {
  const Values p = decode(rP);
  Values dp = decode(rdP);
  clear_unseen(p, dp);
#pragma unroll
  for (i32 j = 0; j < kChunkColumns; ++j) dp.at[j] = p.at[j] * (dp.at[j] - row_sum);
  return device::encode<T>(dp);
}

// Turns gdP into dS, with a row of both in registers.
template <RowClass kClass, class T>
__device__ void softmax_backward_short_rows(const Params& params, const T* gP, T* gdP) {
  using namespace device;
  const TeamRow team = team_row<kClass>(params);
  if (!team.exists()) return;  // the whole team
  const i64 columns = team.mask.seqlen_k;
  constexpr i64 kStep = kClass.threads * kChunkColumns;
  const i64 first = team.thread * kChunkColumns;

  Chunk<T> rP[kClass.chunks];   // (chunks, 8)
  Chunk<T> rdP[kClass.chunks];  // (chunks, 8)
#pragma unroll
  for (i32 i = 0; i < kClass.chunks; ++i) {
    const i64 column = first + i * kStep;
    if (column >= columns) continue;
    rP[i] = load_chunk(gP + team.offset + column);
    rdP[i] = load_chunk(gdP + team.offset + column);
  }

  float row_sum = 0.0f;
#pragma unroll
  for (i32 i = 0; i < kClass.chunks; ++i) {
    if (first + i * kStep < columns) row_sum += clear_and_dot<T>(rP[i], rdP[i]);
  }
  row_sum = reduce_team<Sum, kClass.threads>(row_sum);

#pragma unroll
  for (i32 i = 0; i < kClass.chunks; ++i) {
    const i64 column = first + i * kStep;
    if (column >= columns) continue;
    store_chunk(score_gradient<T>(rP[i], rdP[i], row_sum), gdP + team.offset + column);
  }
}

// Turns gdP into dS in rows that no block holds: it goes twice over the row.
template <class T>
__device__ void softmax_backward_long_rows(const Params& params, const T* gP, T* gdP) {
  using namespace device;
  const TeamRow team = team_row<kLongRows>(params);
  if (!team.exists()) return;
  const i64 columns = team.mask.seqlen_k;
  constexpr i64 kStep = kLongRows.threads * kChunkColumns;
  const i64 first = team.thread * kChunkColumns;

  float row_sum = 0.0f;
  for (i64 column = first; column < columns; column += kStep) {
    row_sum += clear_and_dot<T>(load_chunk(gP + team.offset + column),
                                load_chunk(gdP + team.offset + column));
  }
  row_sum = reduce_team<Sum, kLongRows.threads>(row_sum);

  for (i64 column = first; column < columns; column += kStep) {
    const Chunk<T> rP = load_chunk(gP + team.offset + column);
    const Chunk<T> rdP = load_chunk(gdP + team.offset + column);
    store_chunk(score_gradient<T>(rP, rdP, row_sum), gdP + team.offset + column);
  }
}

template <RowClass kClass, class T>
__device__ void softmax_backward_rows(const Params& params, const T* gP, T* gdP) {
  if constexpr (kClass.chunks > 0) {
    softmax_backward_short_rows<kClass>(params, gP, gdP);
  } else {
    softmax_backward_long_rows(params, gP, gdP);
  }
}

}  // namespace attnlab::naive
