// Does the work of v3's backward for rows before and behind the tiles of keys: kernels of a block
// for each tile of rows, as in v2.
#pragma once

#include "kernels/device/backward_rows.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"
#include "kernels/v3/dq_clearing.cuh"
#include "kernels/v3/dq_sums.cuh"

namespace attnlab::v3 {

// Computes log2_lse and delta of a tile of rows, and whether lse holds the logits of all of them;
// clears its sums of dQ, and who has added to them.
template <class T, BackwardConfig kConfig>
__device__ void prepare_rows(const BackwardSizes& sizes, const BackwardPointers<T>& pointers) {
  using namespace device;
  ptx::griddepcontrol_launch_dependents();
  constexpr i32 kThreads = kConfig.row_threads();
  const Shape& shape = sizes.params.shape;
  const BackwardWorkspace& workspace = sizes.workspace;
  const i32 thread = static_cast<i32>(threadIdx.x);
  const WorkItem item = work_item(sizes.rows, blockIdx.x);
  const BatchEntry entry = batch_entry(sizes.params, item.batch);
  const Range rows = tile_range(item.block, kConfig.block_m, entry.mask.seqlen_q);
  const i64 tile = (item.batch * shape.num_heads_q + item.head) * sizes.rows.blocks + item.block;
  if constexpr (kConfig.deterministic) {
    const BackwardTurns turns = turns_of(workspace, work_items(sizes.rows));
    if (blockIdx.x == 0 && thread < 2) turns.tickets[thread] = 0;
    if (thread == 0) {
      // That is the tile of keys before the first one that adds.
      turns.added[tile] =
          static_cast<i32>(n_block_range(entry.mask, rows, kConfig.block_n).begin) - 1;
      turns.added_again[tile] = 0;
    }
  }
  if (rows.empty()) {
    if constexpr (!kConfig.deterministic) clears_first(sizes, item);
    if (thread == 0) workspace.beyond_lse[tile] = 0;
    return;
  }

  float* const gLog2Lse = workspace.statistics + tile * (2 * kConfig.block_m);
  float* const gDelta = gLog2Lse + kConfig.block_m;
  for_deltas<kThreads>(shape, item, entry, rows, pointers.gO, pointers.gDO,
                       [&](i64 row, float delta) { gDelta[row - rows.begin] = delta; });
  if (kConfig.deterministic || clears_first(sizes, item)) {
    clear_sums<kThreads, kConfig.block_m * kConfig.head_dim>(dq_sums_of<kConfig>(workspace, tile));
  }
  const float* const gLse =
      pointers.gLse + shape.row_statistic_offset(item.batch, item.head, rows.begin);
  bool beyond_lse = false;
  if (thread < kConfig.block_m) {
    const bool exists = thread < rows.size();
    const float lse = exists ? gLse[thread] : -kInfinity;
    beyond_lse = !lse_holds(lse);
    gLog2Lse[thread] = lse == -kInfinity ? kInfinity : lse * kLog2E;
    if (!exists) gDelta[thread] = 0.0f;
  }
  beyond_lse = any_of_block(beyond_lse);
  if (thread == 0) workspace.beyond_lse[tile] = beyond_lse ? 1 : 0;
}

// Stores dQ = softmax_scale * sum of a tile of rows.
template <class T, BackwardConfig kConfig>
__device__ void finish_rows(const BackwardSizes& sizes, const BackwardPointers<T>& pointers) {
  using namespace device;
  using Part = DqPart<kConfig>;
  constexpr TileShape kTile = {.rows = kConfig.block_m, .columns = kConfig.head_dim};
  extern __shared__ __align__(128) u8 shared_memory[];
  ptx::griddepcontrol_wait();
  const Shape& shape = sizes.params.shape;
  const WorkItem item = work_item(sizes.rows, blockIdx.x);
  const BatchEntry entry = batch_entry(sizes.params, item.batch);
  const Range rows = tile_range(item.block, kConfig.block_m, entry.mask.seqlen_q);
  if (rows.empty()) return;

  const i64 tile = (item.batch * shape.num_heads_q + item.head) * sizes.rows.blocks + item.block;
  const i32 warp = static_cast<i32>(threadIdx.x) / kWarp;
#pragma unroll
  for (i32 i = 0; i < Part::kCount; ++i) {
    const i32 part = Part::number(warp, i);
    const auto* const gSums = reinterpret_cast<const float4*>(
        dq_sums_of<kConfig>(sizes.workspace, tile) + part * (kDqWarpBytes / 4));
    typename Part::Accumulator rDQ;
#pragma unroll
    for (i32 c = 0; c < 8; ++c) {
      const float4 sum = gSums[c * kWarp + static_cast<i32>(threadIdx.x) % kWarp];
      rDQ.at[0][c][0] = sum.x * shape.softmax_scale;
      rDQ.at[0][c][1] = sum.y * shape.softmax_scale;
      rDQ.at[0][c][2] = sum.z * shape.softmax_scale;
      rDQ.at[0][c][3] = sum.w * shape.softmax_scale;
    }
    const u32 sTile = ptx::cvta_to_shared(shared_memory);
    if constexpr (Part::kIsTransposed) {
      store_transposed_of_warp<T, kTile>(rDQ, sTile, 0, 16 * part);
    } else {
      store_accumulator<T, kTile>(rDQ, sTile, Part::row(warp), Part::column(warp));
    }
  }
  store_dq_rows<T, kTile, kConfig.row_threads() / kWarp>(shape, item, entry, rows, shared_memory,
                                                         pointers.gDQ);
}

}  // namespace attnlab::v3
