// Finds what a block of v2's backward has to do: its tile of keys.
#pragma once

#include "kernels/device/backward_step.cuh"
#include "kernels/device/team.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v2/backward_parts.cuh"

namespace attnlab::v2 {

// Returns what block `index` of the grid has to do.
__device__ inline BackwardBlock backward_block(const Params& params, const WorkGrid& grid,
                                               const BackwardConfig& config,
                                               const BackwardWorkspace& workspace, i64 index) {
  const Shape& shape = params.shape;
  const WorkItem item = work_item(grid, index);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range keys = tile_range(item.block, config.block_n, entry.mask.seqlen_k);
  const bool all_exist = (item.block + 1) * config.block_n <= entry.mask.valid_k;
  const i64 heads = shape.sharing();
  const i64 first_tile =
      (item.batch * grid.blocks + item.block) * ceil_div<i64>(shape.seqlen_q, config.block_m);
  return {
      .mask = entry.mask,
      .keys = keys,
      .tiles = make_span(m_block_range(entry.mask, keys, config.block_m),
                         all_exist ? full_m_block_range(entry.mask, keys, config.block_m) : Range{},
                         workspace.entries == nullptr ? nullptr : workspace.entries + first_tile),
      .seen_before =
          workspace.seen_before == nullptr ? nullptr : workspace.seen_before + first_tile,
      .n_block = static_cast<i32>(item.block),
      .heads = static_cast<i32>(heads),
      .first_head = item.batch * shape.num_heads_q + item.head * heads,
      .row_offset = shape.q.offset(item.batch, item.head * heads, entry.first_row),
      .key_offset = shape.k.offset(item.batch, item.head, entry.first_key + keys.begin)};
}

// Returns the number of a block's next tile of keys. Where dQ is summed in a fixed order, tiles are
// numbered as they are begun, so that nobody waits for one that has not been.
template <BackwardConfig kConfig>
__device__ i64 next_tile(const BackwardWorkspace& workspace, i32 kernel, i64 own) {
  if (workspace.dq_semaphores == nullptr) return own;
  extern __shared__ __align__(128) u8 shared_memory[];
  u32& sTicket = *reinterpret_cast<u32*>(shared_memory + backward_tiles(kConfig).block());
  if (threadIdx.x == 0) sTicket = atomicAdd(workspace.tickets + kernel, 1u);
  __syncthreads();
  const u32 ticket = sTicket;
  __syncthreads();  // all have read it
  return ticket;
}

// Returns whether this thread knows that lse does not hold the logits of one of the heads of a tile
// of keys. The first warp has other work meanwhile.
template <BackwardConfig kConfig>
__device__ bool is_beyond_lse(const Shape& shape, const WorkGrid& grid,
                              const BackwardWorkspace& workspace, i64 index) {
  constexpr i32 kThreads = (kConfig.warps - 1) * device::kWarp;
  const WorkItem item = work_item(grid, index);
  const i64 heads = shape.sharing();
  const i64 row_tiles = ceil_div<i64>(shape.seqlen_q, kConfig.block_m);
  const i32* const of_heads =
      workspace.beyond_lse + (item.batch * shape.num_heads_q + item.head * heads) * row_tiles;
  bool beyond_lse = false;
  for (i64 i = static_cast<i32>(threadIdx.x) - device::kWarp; i < heads * row_tiles;
       i += kThreads) {
    if (i >= 0) beyond_lse |= of_heads[i] != 0;
  }
  return beyond_lse;
}

}  // namespace attnlab::v2
