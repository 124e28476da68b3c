// v3's scheduler on a GPU: which work items a block has, and what each of them is.
#pragma once

#include "kernels/shared/params.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/shared_memory.cuh"

namespace attnlab::v3 {

// Finds out what work item `index` has to do. It writes field by field to shared memory and reads
// from there, with a compiler fence between fields, because the scheduler has few registers.
__device__ inline void find_block(const Params& params, const WorkGrid& grid,
                                  const ForwardConfig& config, const TileEntry* entries, i64 index,
                                  ForwardBlock& sBlock) {
  const Shape& shape = params.shape;
  const auto compiler_fence = [] { asm volatile("" ::: "memory"); };
  i32 block;
  {
    const WorkItem item = work_item(grid, index);
    block = static_cast<i32>(item.block);
    sBlock.head = static_cast<i32>(item.head);
    sBlock.kv_head = static_cast<i32>(shape.kv_head(item.head));
    sBlock.batch = static_cast<i32>(item.batch);
  }
  compiler_fence();
  {
    const BatchEntry entry = batch_entry(params, sBlock.batch);
    sBlock.mask = entry.mask;
    sBlock.first_row = static_cast<i32>(entry.first_row) + block * config.block_m();
    sBlock.first_key = static_cast<i32>(entry.first_key);
  }
  compiler_fence();
  sBlock.rows = tile_range(block, config.block_m(), sBlock.mask.seqlen_q);
  compiler_fence();
  sBlock.num_rows = static_cast<i32>(sBlock.rows.size());
  compiler_fence();
  {
    // Of the first row, as far as 32 bits go; no sequence is so long.
    constexpr i64 kFar = i64{1} << 30;
    const Mask& mask = sBlock.mask;
    const i64 diagonal = sBlock.rows.begin + mask.seqlen_k - mask.seqlen_q;
    const i64 begin = mask.left < 0 ? -kFar : max<i64>(-kFar, diagonal - mask.left);
    const i64 end = mask.right < 0 ? kFar : min<i64>(kFar, diagonal + mask.right + 1);
    sBlock.band_begin = static_cast<i32>(begin);
    sBlock.band_end = static_cast<i32>(end);
    sBlock.valid_k = static_cast<i32>(mask.valid_k);
  }
  compiler_fence();
  sBlock.row_offset = shape.q.offset(sBlock.batch, sBlock.head, sBlock.first_row);
  compiler_fence();
  sBlock.lse_offset = shape.row_statistic_offset(sBlock.batch, sBlock.head, sBlock.rows.begin);
  sBlock.slice = sBlock.batch * shape.num_heads_q + sBlock.head;
  compiler_fence();
  {
    const i64 n_blocks = ceil_div<i64>(shape.seqlen_k, config.block_n);
    const TileEntry* const own_entries =
        entries == nullptr ? nullptr : entries + (sBlock.batch * grid.blocks + block) * n_blocks;
    const Range all = n_block_range(sBlock.mask, sBlock.rows, config.block_n);
    sBlock.tiles = {.begin = static_cast<i32>(all.begin),
                    .end = static_cast<i32>(all.end),
                    .entries = own_entries};
  }
  compiler_fence();
  {
    const Range full = full_n_block_range(sBlock.mask, sBlock.rows, config.block_n);
    sBlock.tiles.full_begin = static_cast<i32>(full.begin);
    sBlock.tiles.full_end = static_cast<i32>(full.end);
  }
  compiler_fence();
  sBlock.tiles.begin = sBlock.tiles.not_empty(sBlock.tiles.begin);
  if (params.cu_seqlens_q != nullptr) sBlock.batch = 0;  // a packed tensor has one
}

// Says which work items the block has, ahead of those who work on them. A step is an item.
template <ForwardConfig kConfig>
class Scheduler {
 public:
  // next_item counts the items that blocks have taken beyond their first ones; null: static
  // round-robin with stride gridDim.x.
  __device__ Scheduler(const Params& params, const WorkGrid& grid, const TileEntry* entries,
                       u32* next_item, const ForwardMemory<kConfig>& memory)
      : params_(params), grid_(grid), entries_(entries), next_item_(next_item), memory_(memory) {}

  __device__ bool is_done() const { return is_done_; }
  // Returns what a step must wait for.
  __device__ device::Phase needs() const { return memory_.block_ring.when_empty(stage_); }
  __device__ void step() {
    ForwardBlock& sBlock = memory_.block(stage_.stage);
    is_done_ = item_ >= static_cast<u32>(work_items(grid_));
    sBlock.ends = is_done_;
    if (!is_done_) find_block(params_, grid_, kConfig, entries_, item_, sBlock);
    ptx::mbarrier_arrive(memory_.block_ring.full(stage_.stage));
    if (is_done_) return;
    item_ = next_item_ == nullptr ? item_ + gridDim.x : gridDim.x + atomicAdd(next_item_, 1u);
    stage_.advance(kBlockStages);
  }

 private:
  const Params& params_;
  const WorkGrid& grid_;
  const TileEntry* entries_;
  u32* next_item_;
  const ForwardMemory<kConfig>& memory_;
  u32 item_ = blockIdx.x;
  PipelineState stage_ = producer_start();
  bool is_done_ = false;
};

}  // namespace attnlab::v3
