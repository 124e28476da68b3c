// Does the work of v2's backward for rows before and behind the tiles of keys: kernels of a block
// for each tile of rows.
#pragma once

#include "kernels/device/backward_rows.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"
#include "kernels/v2/backward_parts.cuh"
#include "kernels/v2/dq_sums.cuh"

namespace attnlab::v2 {

// Computes delta of a tile of rows, and whether lse holds all of their logits; clears its sums of
// dQ and sets their semaphore to the last tile of keys that the rows see, which adds first.
template <class T, BackwardConfig kConfig>
__device__ void prepare_rows(const PrepareArguments<T>& arguments) {
  const Params& params = arguments.params;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  const auto [gO, gDO, gLse] = arguments.tensors;
  using namespace device;
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

  for_deltas<kThreads>(shape, item, entry, rows, gO, gDO, [&](i64 row, float delta) {
    workspace.delta[shape.row_statistic_offset(item.batch, item.head, row)] = delta;
  });
  clear_sums<kThreads, kConfig.block_m * kConfig.head_dim>(dq_sums_of<kConfig>(workspace, tile));
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

// Stores dQ = softmax_scale * sum of a tile of rows.
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
  store_dq_tile<T, kTile, kConfig.warps>(shape, item, entry, rows, rDQ, Part::row(), Part::column(),
                                         shared_memory, gDQ);
}

}  // namespace attnlab::v2
