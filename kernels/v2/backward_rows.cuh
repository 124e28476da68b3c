// What v2's backward does for rows before and behind the tiles of keys: kernels of a block for each
// tile of rows.
#pragma once

#include "kernels/device/storage.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"
#include "kernels/v2/backward_parts.cuh"
#include "kernels/v2/dq_sums.cuh"

namespace attnlab::v2 {

// delta of a tile of rows, and whether lse holds the logits of all of them; its sums of dQ become
// zero, and their semaphore the last tile of keys that the rows see, which adds first. Eight lanes
// a row.
template <class T, BackwardConfig kConfig>
__device__ void prepare_rows(const PrepareArguments<T>& arguments) {
  const Params& params = arguments.params;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  const auto [gO, gDO, gLse] = arguments.tensors;
  using namespace device;
  constexpr i32 kLanes = 8;
  constexpr i32 kThreads = kConfig.warps * kWarp;
  const Shape& shape = params.shape;
  const i32 thread = static_cast<i32>(threadIdx.x);
  if (workspace.dq_semaphores != nullptr && blockIdx.x == 0 && thread < 2)
    workspace.tickets[thread] = 0;
  const WorkItem item = work_item(grid, blockIdx.x);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range rows = tile_range(item.block, kConfig.block_m, entry.mask.seqlen_q);
  const i64 tile = (item.batch * shape.num_heads_q + item.head) * grid.blocks + item.block;
  if (rows.empty()) {
    if (thread == 0) workspace.beyond_lse[tile] = 0;
    return;
  }

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
    if (exists && thread % kLanes == 0) {
      workspace.delta[shape.row_statistic_offset(item.batch, item.head, row)] = sum;
    }
  }

  auto* const sums = reinterpret_cast<float4*>(dq_sums_of<kConfig>(workspace, tile));
  for (i32 i = thread; i < kConfig.block_m * kConfig.head_dim / 4; i += kThreads) {
    sums[i] = {0.0f, 0.0f, 0.0f, 0.0f};
  }
  const float* const gTile = gLse + shape.row_statistic_offset(item.batch, item.head, rows.begin);
  bool beyond_lse = false;
  for (i32 row = thread; row < static_cast<i32>(rows.size()); row += kThreads) {
    beyond_lse |= !lse_holds(gTile[row]);
  }
  beyond_lse = any_of_block(beyond_lse);
  if (thread == 0) workspace.beyond_lse[tile] = beyond_lse ? 1 : 0;
  if (workspace.dq_semaphores != nullptr && thread == 0) {
    const i64 last = ceil_div<i64>(shape.seqlen_k, kConfig.block_n) - 1;
    workspace.dq_semaphores[tile] =
        static_cast<i32>(previous_n_block(entry.mask, rows, kConfig.block_n, last));
  }
}

// dQ = softmax_scale * sum, of a tile of rows.
template <class T, BackwardConfig kConfig>
__device__ void finish_rows(const FinishArguments<T>& arguments) {
  const Params& params = arguments.params;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  T* const gDQ = arguments.gDQ;
  using namespace device;
  using Part = typename BackwardParts<kConfig>::Rows;
  constexpr TileShape kTile = backward_tiles(kConfig).q;
  extern __shared__ __align__(128) u8 shared_memory[];
  const Shape& shape = params.shape;
  const WorkItem item = work_item(grid, blockIdx.x);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range rows = tile_range(item.block, kConfig.block_m, entry.mask.seqlen_q);
  if (rows.empty()) return;

  const i64 tile = (item.batch * shape.num_heads_q + item.head) * grid.blocks + item.block;
  const float* const gSums = dq_sums_of<kConfig>(workspace, tile);
  typename Part::Accumulator rDQ;
  for_places<Part>(rDQ, [&](float(&dq)[4], i32 place) {
    const auto sum = *reinterpret_cast<const float4*>(gSums + place);
    dq[0] = sum.x * shape.softmax_scale;
    dq[1] = sum.y * shape.softmax_scale;
    dq[2] = sum.z * shape.softmax_scale;
    dq[3] = sum.w * shape.softmax_scale;
  });
  store_accumulator<T, kTile>(rDQ, ptx::cvta_to_shared(shared_memory), Part::row(), Part::column());
  __syncthreads();
  constexpr i32 kWarpRows = kConfig.block_m / kConfig.warps;
  const i32 own = static_cast<i32>(threadIdx.x) / kWarp * kWarpRows;
  const i32 exist = static_cast<i32>(min<i64>(kWarpRows, rows.size() - own));
  const i64 offset = shape.q.offset(item.batch, item.head, entry.first_row + rows.begin + own);
  store_rows<kTile, kWarpRows>(shared_memory, own, exist, gDQ + offset, shape.q.row,
                               static_cast<i32>(shape.head_dim));
}

}  // namespace attnlab::v2
