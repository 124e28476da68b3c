// Does what a backward whose work items are tiles of keys (v2, v3) needs for a tile of query rows
// before and behind them. All threads of a block call these functions.
#pragma once

#include "kernels/device/storage.cuh"
#include "kernels/device/warp_product.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::device {

// Calls use(row, delta) in one lane for each of `rows`: delta = rowsum(dO * O). A row has 8 lanes.
template <i32 kThreads, class T, class Use>
__device__ void for_deltas(const Shape& shape, const WorkItem& item, const BatchEntry& entry,
                           Range rows, const T* gO, const T* gDO, const Use& use) {
  constexpr i32 kLanes = 8;
  const i32 thread = static_cast<i32>(threadIdx.x);
  const i32 chunks = static_cast<i32>(shape.head_dim) / kChunk;
  for (i64 first = rows.begin; first < rows.end; first += kThreads / kLanes) {
    const i64 row = first + thread / kLanes;
    const bool exists = row < rows.end;
    const i64 offset = shape.q.offset(item.batch, item.head, entry.first_row + row);
    float sum = 0.0f;
    for (i32 chunk = thread % kLanes; exists && chunk < chunks; chunk += kLanes) {
      const Values o = decode(load_chunk(gO + offset + chunk * kChunk));
      const Values dO = decode(load_chunk(gDO + offset + chunk * kChunk));
#pragma unroll
      for (i32 i = 0; i < kChunk; ++i) sum += o.at[i] * dO.at[i];
    }
#pragma unroll
    for (i32 distance = kLanes / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
    }
    if (exists && thread % kLanes == 0) use(row, sum);
  }
}

// Zeroes kCount sums, a multiple of four.
template <i32 kThreads, i32 kCount>
__device__ void clear_sums(float* gSums) {
  auto* const sums = reinterpret_cast<float4*>(gSums);
  for (i32 i = static_cast<i32>(threadIdx.x); i < kCount / 4; i += kThreads) {
    sums[i] = {0.0f, 0.0f, 0.0f, 0.0f};
  }
}

// Stores a tile of dQ that lies in shared memory, whose rows the warps share.
template <class T, TileShape kTile, i32 kWarps>
__device__ void store_dq_rows(const Shape& shape, const WorkItem& item, const BatchEntry& entry,
                              Range rows, const u8* shared_memory, T* gDQ) {
  __syncthreads();
  constexpr i32 kWarpRows = ceil_div(kTile.rows, kWarps);
  const i32 own = static_cast<i32>(threadIdx.x) / kWarp * kWarpRows;
  const i32 exist = static_cast<i32>(min<i64>(kWarpRows, rows.size() - own));
  const i64 offset = shape.q.offset(item.batch, item.head, entry.first_row + rows.begin + own);
  store_rows<kTile, kWarpRows>(shared_memory, own, exist, gDQ + offset, shape.q.row,
                               static_cast<i32>(shape.head_dim));
}

// Stores a tile of dQ, of which this warp has rDQ at (row, column), by way of shared memory.
template <class T, TileShape kTile, i32 kWarps, i32 kRows, i32 kColumns>
__device__ void store_dq_tile(const Shape& shape, const WorkItem& item, const BatchEntry& entry,
                              Range rows, const Accumulator<kRows, kColumns>& rDQ, i32 row,
                              i32 column, u8* shared_memory, T* gDQ) {
  store_accumulator<T, kTile>(rDQ, ptx::cvta_to_shared(shared_memory), row, column);
  store_dq_rows<T, kTile, kWarps>(shape, item, entry, rows, shared_memory, gDQ);
}

}  // namespace attnlab::device
