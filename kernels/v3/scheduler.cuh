// Implements v3's scheduler on a GPU: it finds a thread block's work items and their work tiles.
#pragma once

#include "kernels/shared/params.h"
#include "kernels/shared/quantise.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/shared_memory.cuh"
#include "kernels/v3/timeline.cuh"

namespace attnlab::v3 {

// Describes work item `index`. It writes field by field to shared memory and reads from there, with
// a compiler fence between fields, because the scheduler has few registers.
__device__ inline void find_work_tile(const Params& params, const WorkGrid& grid,
                                      const ForwardConfig& config, const TileEntry* entries,
                                      i64 index, ForwardWorkTile& sWorkTile) {
  const Shape& shape = params.shape;
  const auto compiler_fence = [] { asm volatile("" ::: "memory"); };
  i32& batch = sWorkTile.batch;
  i32 m_block;
  {
    const WorkItem item = work_item(grid, index);
    m_block = static_cast<i32>(item.block);
    sWorkTile.head = static_cast<i32>(item.head);
    sWorkTile.kv_head = static_cast<i32>(shape.kv_head(item.head));
    batch = static_cast<i32>(item.batch);
  }
  compiler_fence();
  {
    const BatchEntry entry = batch_entry(params, batch);
    sWorkTile.mask = entry.mask;
    sWorkTile.first_row = static_cast<i32>(entry.first_row) + m_block * config.block_m();
    sWorkTile.first_key = static_cast<i32>(entry.first_key);
  }
  compiler_fence();
  sWorkTile.rows = tile_range(m_block, config.block_m(), sWorkTile.mask.seqlen_q);
  compiler_fence();
  sWorkTile.num_rows = static_cast<i32>(sWorkTile.rows.size());
  compiler_fence();
  {
    const Mask& mask = sWorkTile.mask;
    const i64 diagonal = sWorkTile.rows.begin + mask.seqlen_k - mask.seqlen_q;
    const i64 begin = mask.left < 0 ? -kFar : max<i64>(-kFar, diagonal - mask.left);
    sWorkTile.band_begin = static_cast<i32>(begin);
    sWorkTile.band_end = band_end(mask, sWorkTile.rows.begin);
    sWorkTile.valid_k = static_cast<i32>(mask.valid_k);
  }
  compiler_fence();
  sWorkTile.row_offset = shape.q.offset(batch, sWorkTile.head, sWorkTile.first_row);
  compiler_fence();
  sWorkTile.lse_offset = shape.row_statistic_offset(batch, sWorkTile.head, sWorkTile.rows.begin);
  sWorkTile.slice = batch * shape.num_heads_q + sWorkTile.head;
  compiler_fence();
  {
    const i64 n_blocks = ceil_div<i64>(shape.seqlen_k, config.block_n);
    const TileEntry* const own_entries =
        entries == nullptr ? nullptr : entries + (batch * grid.blocks + m_block) * n_blocks;
    const Range all = n_block_range(sWorkTile.mask, sWorkTile.rows, config.block_n);
    sWorkTile.tiles = {.begin = static_cast<i32>(all.begin),
                       .end = static_cast<i32>(all.end),
                       .entries = own_entries};
  }
  compiler_fence();
  {
    const Range full = full_n_block_range(sWorkTile.mask, sWorkTile.rows, config.block_n);
    sWorkTile.tiles.full_begin = static_cast<i32>(full.begin);
    sWorkTile.tiles.full_end = static_cast<i32>(full.end);
  }
  compiler_fence();
  sWorkTile.tiles.begin = sWorkTile.tiles.not_empty(sWorkTile.tiles.begin);
  if (config.passes_unseen()) {
    for (i32 consumer = 0; consumer < config.consumers; ++consumer) {
      compiler_fence();
      const TileSpan& tiles = sWorkTile.tiles;
      sWorkTile.unseen[consumer] = static_cast<u8>(unseen_tiles(
          config, consumer, sWorkTile.band_end, sWorkTile.num_rows, tiles.begin, tiles.end));
    }
  }
  sWorkTile.map_batch = params.cu_seqlens_q != nullptr ? 0 : batch;
}

// Describes the same work item for factors of e4m3; `config` is a kernel's that reads them.
__device__ inline void find_e4m3_work_tile(const Params& params, const ForwardConfig& config,
                                           const E4m3Scales& scales, ForwardWorkTile& sWorkTile,
                                           E4m3WorkTile& sE4m3) {
  const Shape& shape = params.shape;
  const i64 kv_slice = sWorkTile.batch * shape.num_heads_kv + sWorkTile.kv_head;
  const i64 blocks_k = ceil_div(shape.seqlen_k, kScaleRows);
  const i64 blocks_q = ceil_div(shape.seqlen_q, kScaleRows);
  sWorkTile.tiles.end = sWorkTile.tiles.not_empty_before(sWorkTile.tiles.end - 1) + 1;
  sE4m3.scales_k = scales.k + kv_slice * blocks_k;
  sE4m3.scales_v = scales.v + kv_slice * (config.v_columns ? shape.head_dim : blocks_k);
  const i64 first_key = sWorkTile.first_key;
  sE4m3.first_key = params.cu_seqlens_k == nullptr
                        ? 0
                        : static_cast<i32>(first_transposed_key(first_key, sWorkTile.batch));
  for (i32 consumer = 0; consumer < config.consumers; ++consumer) {
    const i64 row = sWorkTile.rows.begin + 64 * consumer;
    if (row >= sWorkTile.rows.end) break;
    sE4m3.scales_log2[consumer] =
        shape.softmax_scale_log2 * scales.q[sWorkTile.slice * blocks_q + row / kScaleRows];
  }
}

// Hands the thread block its work tiles, ahead of the roles that work on them. A step publishes
// one, or claims the next item.
template <ForwardConfig kConfig>
class Scheduler {
 public:
  // next_item counts the items that blocks have taken beyond their first ones; where it is null,
  // block b takes items b, b + gridDim.x, ...
  __device__ Scheduler(const Params& params, const WorkGrid& grid, const TileEntry* entries,
                       u32* next_item, const ForwardMemory<kConfig>& memory,
                       const E4m3Scales& scales = {})
      : params_(params),
        grid_(grid),
        entries_(entries),
        next_item_(next_item),
        memory_(memory),
        scales_(scales) {}

  __device__ bool is_done() const { return is_done_; }
  // Returns what a step must wait for.
  __device__ device::Phase needs() const {
    return item_ == kUnclaimed ? memory_.when_asked(stage_)
                               : memory_.work_tile_ring.when_empty(stage_);
  }
  __device__ void step() {
    if (item_ == kUnclaimed) {
      item_ = gridDim.x + atomicAdd(next_item_, 1u);
      ATTNLAB_NOTE(note_claim();)
      return;
    }
    ForwardWorkTile& sWorkTile = memory_.work_tile(stage_.stage);
    is_done_ = item_ >= static_cast<u32>(work_items(grid_));
    sWorkTile.ends = is_done_;
    ATTNLAB_NOTE(const u32 begin = cycles_now();)
    if (!is_done_) find_work_tile(params_, grid_, kConfig, entries_, item_, sWorkTile);
    if constexpr (kConfig.e4m3) {
      if (!is_done_) {
        find_e4m3_work_tile(params_, kConfig, scales_, sWorkTile,
                            memory_.e4m3_work_tile(stage_.stage));
      }
    }
    ATTNLAB_NOTE(if (!is_done_) Timeline(memory_).publish(stage_.stage, item_, begin);)
    ptx::mbarrier_arrive(memory_.work_tile_ring.full(stage_.stage));
    if (is_done_) return;
    item_ = next_item_ == nullptr ? item_ + gridDim.x : kUnclaimed;
    ATTNLAB_NOTE(if (item_ != kUnclaimed) note_claim();)
    stage_.advance(kWorkTileStages);
  }

 private:
  static constexpr u32 kUnclaimed = ~0u;  // no item: a launch has less than 2^31

  ATTNLAB_NOTE(__device__ void note_claim() const {
    if (item_ < static_cast<u32>(work_items(grid_))) Timeline(memory_).claim(item_);
  })

  const Params& params_;
  const WorkGrid& grid_;
  const TileEntry* entries_;
  u32* next_item_;
  const ForwardMemory<kConfig>& memory_;
  E4m3Scales scales_;
  u32 item_ = blockIdx.x;
  PipelineState stage_ = producer_start();
  bool is_done_ = false;
};

}  // namespace attnlab::v3
