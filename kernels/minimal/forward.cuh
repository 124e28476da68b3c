// Implements minimal on a GPU: what flash attention is, before it is made fast.
//
// Against naive one thing changes: the attention matrix is never in memory. A block of 32 threads
// owns 32 query rows, one a thread, and brings K and V into shared memory 32 keys at a time. From
// the keys before, a row needs only the largest score, the sum of exponentials and an unnormalised
// row of O: with these a thread takes the next 32 keys and forgets them (online softmax). So HBM is
// read and written as often as schedule.h says, and nothing grows with the square of seqlen.
//
// Left out is what the next generations are about. A thread uses each value of K or V that it reads
// from shared memory for one multiplication, four multiply-adds for every 16 bytes, where v1 and v2
// multiply tiles by tiles on tensor cores; and a block of one warp with tiles of its own leaves few
// warps on a multiprocessor. Loads and arithmetic of a block wait for each other (v2 overlaps
// them), and every row asks the mask about every key (v2 skips tiles that nobody sees).
#pragma once

#include "kernels/device/bits.h"
#include "kernels/minimal/schedule.h"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"

namespace attnlab::minimal {

// Config is what a unit is compiled for.
struct Config {
  i32 head_dim = 64;
};

template <Config kConfig>
struct SharedMemory {
  static constexpr i32 kQuads = quads(kConfig.head_dim);

  // Each thread has its own row here, never another's: threads lie side by side, so that no two of
  // them meet in a bank.
  float4 sQ[kQuads][kBlock];  // (head_dim / 4, 32)
  float4 sO[kQuads][kBlock];  // (head_dim / 4, 32), unnormalised
  // All threads read the same value at a time here: one access serves all.
  float4 sK[kBlock][kQuads];  // (32, head_dim / 4)
  float4 sV[kBlock][kQuads];  // (32, head_dim / 4)
};

// Returns the quad of a row in HBM that begins at column 4 * quad; zeros past head_dim.
template <Config kConfig>
__device__ float4 load_quad(const float* gRow, i32 quad) {
  if constexpr (kConfig.head_dim % 4 == 0) {
    return reinterpret_cast<const float4*>(gRow)[quad];
  } else {
    const i32 x = 4 * quad;
    return {gRow[x], x + 1 < kConfig.head_dim ? gRow[x + 1] : 0.0f,
            x + 2 < kConfig.head_dim ? gRow[x + 2] : 0.0f,
            x + 3 < kConfig.head_dim ? gRow[x + 3] : 0.0f};
  }
}

template <Config kConfig>
__device__ void store_quad(float4 value, float* gRow, i32 quad) {
  if constexpr (kConfig.head_dim % 4 == 0) {
    reinterpret_cast<float4*>(gRow)[quad] = value;
  } else {
    const i32 x = 4 * quad;
    gRow[x] = value.x;
    if (x + 1 < kConfig.head_dim) gRow[x + 1] = value.y;
    if (x + 2 < kConfig.head_dim) gRow[x + 2] = value.z;
    if (x + 3 < kConfig.head_dim) gRow[x + 3] = value.w;
  }
}

// The block brings `num_keys` rows of K or V into shared memory, neighbours in HBM by neighbouring
// threads; the rest of the tile is 0.
template <Config kConfig>
__device__ void load_tile(const float* gRows, i64 row_stride, i64 num_keys,
                          float4 (&sTile)[kBlock][quads(kConfig.head_dim)]) {
  constexpr i32 kQuads = quads(kConfig.head_dim);
#pragma unroll 8
  for (i32 i = static_cast<i32>(threadIdx.x); i < kBlock * kQuads; i += kBlock) {
    const i32 key = i / kQuads, quad = i % kQuads;
    sTile[key][quad] = key < num_keys ? load_quad<kConfig>(gRows + key * row_stride, quad)
                                      : float4{0.0f, 0.0f, 0.0f, 0.0f};
  }
}

// Multiplies the thread's row by the tile's 32 keys: 32 sums at once, none waits for another.
template <Config kConfig>
__device__ void dot_keys(const SharedMemory<kConfig>& shared, float (&rS)[kBlock]) {
#pragma unroll
  for (i32 key = 0; key < kBlock; ++key) rS[key] = 0.0f;
#pragma unroll 1
  for (i32 quad = 0; quad < quads(kConfig.head_dim); ++quad) {
    const float4 q = shared.sQ[quad][threadIdx.x];
#pragma unroll
    for (i32 key = 0; key < kBlock; ++key) {
      const float4 k = shared.sK[key][quad];
      rS[key] += q.x * k.x;
      rS[key] += q.y * k.y;
      rS[key] += q.z * k.z;
      rS[key] += q.w * k.w;
    }
  }
}

// Computes softmax of a tile's keys by themselves: scores become exp2(scale * score - max).
__device__ inline OnlineSoftmax softmax_of_tile(float scale, float (&rS)[kBlock]) {
  float largest = -kInfinity;
#pragma unroll
  for (i32 key = 0; key < kBlock; ++key) largest = fmaxf(largest, rS[key]);
  OnlineSoftmax tile;
  tile.max = scaled_max(largest, scale);
#pragma unroll
  for (i32 key = 0; key < kBlock; ++key) {
    rS[key] = exp2_f32(exponent(rS[key], tile.max, scale));
    tile.sum += rS[key];
  }
  return tile;
}

// Adds to O of the thread's row: what the tile's keys give joins it when it is complete.
template <Config kConfig>
__device__ void add_values(const float (&rP)[kBlock], const MergedSoftmax& merged,
                           SharedMemory<kConfig>& shared) {
#pragma unroll 1
  for (i32 quad = 0; quad < quads(kConfig.head_dim); ++quad) {
    float4 part = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (i32 key = 0; key < kBlock; ++key) {
      const float4 v = shared.sV[key][quad];
      part.x += rP[key] * v.x;
      part.y += rP[key] * v.y;
      part.z += rP[key] * v.z;
      part.w += rP[key] * v.w;
    }
    float4& o = shared.sO[quad][threadIdx.x];
    o.x = o.x * merged.factor_a + part.x * merged.factor_b;
    o.y = o.y * merged.factor_a + part.y * merged.factor_b;
    o.z = o.z * merged.factor_a + part.z * merged.factor_b;
    o.w = o.w * merged.factor_a + part.w * merged.factor_b;
  }
}

template <Config kConfig>
__device__ void forward(const ForwardArguments& arguments) {
  const auto& [params, gQ, gK, gV, gO, gLse] = arguments;
  constexpr i32 kQuads = quads(kConfig.head_dim);
  extern __shared__ float4 shared_memory[];
  auto& shared = *reinterpret_cast<SharedMemory<kConfig>*>(shared_memory);
  const i32 thread = static_cast<i32>(threadIdx.x);

  // The block has these rows.
  const Shape& shape = params.shape;
  const WorkItem item = work_item(row_blocks_grid(shape), blockIdx.x);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range rows = tile_range(item.block, kBlock, entry.mask.seqlen_q);
  if (rows.empty()) return;  // a packed entry shorter than the longest

  // The thread has this row. Threads past the last one see no key, and help to load tiles.
  const i64 row = rows.begin + thread;
  const bool exists = row < rows.end;
  const Range seen = exists ? band(entry.mask, row) : Range{};
  const i64 slice = item.batch * shape.num_heads_q + item.head;
  const i64 row_offset = shape.q.offset(item.batch, item.head, entry.first_row + row);
  const i64 key_offset = shape.k.offset(item.batch, shape.kv_head(item.head), entry.first_key);
#pragma unroll 4
  for (i32 quad = 0; quad < kQuads; ++quad) {
    const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
    shared.sQ[quad][thread] = exists ? load_quad<kConfig>(gQ + row_offset, quad) : zero;
    shared.sO[quad][thread] = zero;
  }

  OnlineSoftmax softmax;
  for (i64 n_block = 0; n_block < kTiling.n_blocks(entry.mask.seqlen_k); ++n_block) {
    const Range keys = tile_range(n_block, kBlock, entry.mask.seqlen_k);
    const i64 tile_offset = key_offset + keys.begin * shape.k.row;
    __syncthreads();  // nobody reads the tiles before any more
    load_tile<kConfig>(gK + tile_offset, shape.k.row, keys.size(), shared.sK);
    load_tile<kConfig>(gV + tile_offset, shape.k.row, keys.size(), shared.sV);
    __syncthreads();

    float rS[kBlock];  // (32) scores, then probabilities
    dot_keys<kConfig>(shared, rS);
    const u32 visible = device::visible_bits<kBlock>(entry.mask, seen, row, keys.begin);
#pragma unroll
    for (i32 key = 0; key < kBlock; ++key) {
      rS[key] = (visible >> key & 1) != 0 ? rS[key] : -kInfinity;
    }
    const OnlineSoftmax tile = softmax_of_tile(shape.softmax_scale_log2, rS);
    if (params.dropout.threshold > 0) {
      const u32 kept = device::kept_bits_of_row(params.dropout, slice, row, keys.begin);
#pragma unroll
      for (i32 key = 0; key < kBlock; ++key) rS[key] = (kept >> key & 1) != 0 ? rS[key] : 0.0f;
    }
    const MergedSoftmax merged = merge(softmax, tile);
    softmax = merged.state;
    add_values<kConfig>(rS, merged, shared);
  }

  if (!exists) return;
  const float scale = final_scale(softmax) * params.dropout.keep_scale;
#pragma unroll 4
  for (i32 quad = 0; quad < kQuads; ++quad) {
    const float4 o = shared.sO[quad][thread];
    store_quad<kConfig>({o.x * scale, o.y * scale, o.z * scale, o.w * scale}, gO + row_offset,
                        quad);
  }
  gLse[shape.row_statistic_offset(item.batch, item.head, row)] = lse(softmax, shape);
}

}  // namespace attnlab::minimal
