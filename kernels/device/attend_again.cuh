// Attends once more to rows whose scores are too large for exponents relative to a rounded maximum,
// by which tiles are worked on (shared/softmax.h). Nothing looks for them while tiles pass. When a
// row ends, its state tells (is_lost); its lse then is NaN until a warp has attended to the row
// once more, with the rows' own scale, one row at a time. That takes long, and is rare.
#pragma once

#include "kernels/device/storage.cuh"
#include "kernels/device/team.cuh"
#include "kernels/device/warp_product.cuh"
#include "kernels/shared/dropout.h"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"

namespace attnlab::device {

// Scores says how a row's S is computed once more. By mma.sync it equals to the bit what a backward
// finds that multiplies with the same instruction, as it must: the distance of fp32 numbers is
// large here. A plain sum needs fewer registers; v3's backward finds states of its own.
enum class Scores { by_mma_sync, by_plain_sums };

// Computes S of one row with the `exist` next keys, 32 at the most, by a warp: each lane gets the
// score of a key of its own.
template <class T>
__device__ float scores_by_mma_sync(const T* gRow, const T* gKeys, i64 key_stride, i64 exist,
                                    i32 head_dim) {
  const i32 lane = opaque_lane(), g = lane / 4, t = lane % 4;
  const auto pair = [](const T* from) { return *reinterpret_cast<const u32*>(from); };
  float own = 0.0f;
  for (i32 c = 0; c < kWarp / 8; ++c) {
    const T* const gKey = gKeys + (8 * c + g) * key_stride;
    const bool exists = 8 * c + g < exist;
    float sums[4] = {};
    for (i32 k = 2 * t; k < head_dim; k += 16) {
      const bool has_second = k + 8 < head_dim;
      const u32 first = pair(gRow + k), second = has_second ? pair(gRow + k + 8) : 0;
      const FragmentB keys = {
          {exists ? pair(gKey + k) : 0, exists && has_second ? pair(gKey + k + 8) : 0}};
      mma(T{}, sums, FragmentA{{first, first, second, second}}, keys, 0);
    }
    const i32 from = lane % 8 / 2;  // who has the key's column of the sums
    const float even = __shfl_sync(0xFFFFFFFFu, sums[0], from);
    const float odd = __shfl_sync(0xFFFFFFFFu, sums[1], from);
    if (lane / 8 == c) own = lane % 2 == 0 ? even : odd;
  }
  return own;
}

// Computes the same in one lane alone.
template <class T>
__device__ float score_by_plain_sum(const T* gRow, const T* gKey, i32 head_dim) {
  float sum = 0.0f;
#pragma unroll 1
  for (i32 i = 0; i < head_dim; i += kChunk) {
    const Values q = decode(load_chunk(gRow + i)), k = decode(load_chunk(gKey + i));
#pragma unroll
    for (i32 j = 0; j < kChunk; ++j) sum = fmaf(q.at[j], k.at[j], sum);
  }
  return sum;
}

// Computes O of one row by a warp: lanes share the keys for S, and the chunks of a head for O. It
// gives store(chunk, offset) each chunk, with its place. Returns the row's state, in all lanes.
template <Scores kScores, class T, class Store>
__device__ OnlineSoftmax attend_row(const Params& params, i64 batch, i64 head, i64 row, const T* gQ,
                                    const T* gK, const T* gV, const Store& store) {
  const Shape& shape = params.shape;
  const float scale = shape.softmax_scale_log2;
  const BatchEntry entry = batch_entry(params, batch);
  const i32 lane = opaque_lane();
  const i64 offset = shape.q.offset(batch, head, entry.first_row + row);
  const i64 first_key = shape.k.offset(batch, shape.kv_head(head), entry.first_key);
  const i64 seqlen_k = entry.mask.seqlen_k;
  const auto sees = [&](i64 key) { return key < seqlen_k && is_visible(entry.mask, row, key); };
  const auto own_score = [&](i64 first) {  // of key first + lane
    const i32 head_dim = static_cast<i32>(shape.head_dim);
    const T* const gKeys = gK + first_key + first * shape.k.row;
    if constexpr (kScores == Scores::by_mma_sync) {
      return scores_by_mma_sync(gQ + offset, gKeys, shape.k.row, seqlen_k - first, head_dim);
    } else if (!sees(first + lane)) {
      return 0.0f;
    } else {
      return score_by_plain_sum(gQ + offset, gKeys + lane * shape.k.row, head_dim);
    }
  };

  OnlineSoftmax state;
  for (i64 first = 0; first < seqlen_k; first += kWarp) {
    const float score = own_score(first);
    if (sees(first + lane)) state.max = fmaxf(state.max, scaled_max(score, scale));
  }
#pragma unroll
  for (i32 distance = kWarp / 2; distance > 0; distance /= 2) {
    state.max = fmaxf(state.max, __shfl_xor_sync(0xFFFFFFFFu, state.max, distance));
  }
  Values o = {};
  const bool has_chunk = lane * kChunk < shape.head_dim;
  for (i64 first = 0; first < seqlen_k; first += kWarp) {
    const float score = own_score(first);
    const float own_p = sees(first + lane) ? exp2_f32(exponent(score, state.max, scale)) : 0.0f;
    state.sum += own_p;
    for (i32 i = 0; i < kWarp; ++i) {
      const float p = __shfl_sync(0xFFFFFFFFu, own_p, i);
      if (p == 0.0f || !has_chunk) continue;
      const i64 key = first + i;
      const i64 slice = batch * shape.num_heads_q + head;
      if (params.dropout.threshold > 0 && !is_kept(params.dropout, slice, row, key)) continue;
      const Values v = decode(load_chunk(gV + first_key + key * shape.k.row + lane * kChunk));
#pragma unroll
      for (i32 j = 0; j < kChunk; ++j) o.at[j] = fmaf(p, v.at[j], o.at[j]);
    }
  }
#pragma unroll
  for (i32 distance = kWarp / 2; distance > 0; distance /= 2) {
    state.sum += __shfl_xor_sync(0xFFFFFFFFu, state.sum, distance);
  }
  const float factor = final_scale(state) * params.dropout.keep_scale;
#pragma unroll
  for (i32 j = 0; j < kChunk; ++j) o.at[j] *= factor;
  if (has_chunk) store(encode<T>(o), offset + lane * kChunk);
  return state;
}

// Attends to those of `rows` whose lse is NaN, each `step`th, and puts lse right. `save(row,
// state)` does what else is to be done, in one lane. A whole warp calls it.
template <Scores kScores, class T, class Save>
__device__ void attend_again(const Params& params, i64 batch, i64 head, Range rows, i64 step,
                             const T* gQ, const T* gK, const T* gV, T* gO, float* gLse,
                             const Save& save) {
  for (i64 row = rows.begin; row < rows.end; row += step) {
    float* const to = gLse + params.shape.row_statistic_offset(batch, head, row);
    const float mark = *to;
    if (mark == mark) continue;
    const OnlineSoftmax state = attend_row<kScores>(
        params, batch, head, row, gQ, gK, gV,
        [&](const Chunk<T>& chunk, i64 offset) { store_chunk(chunk, gO + offset); });
    __syncwarp();  // all lanes have read the mark
    if (opaque_lane() == 0) {
      *to = attnlab::lse(state, params.shape);
      save(row, state);
    }
  }
}

}  // namespace attnlab::device
