// Finds which work item a block of v3's backward has, and implements its loader.
#pragma once

#include "kernels/device/backward_step.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/backward_memory.cuh"
#include "kernels/v3/timeline.cuh"

namespace attnlab::v3 {

// Describes work item `index`.
__device__ inline BackwardWorkTile backward_work_tile(const BackwardSizes& sizes,
                                                      const BackwardConfig& config, i64 index) {
  const Params& params = sizes.params;
  const Shape& shape = params.shape;
  const WorkItem item = work_item(sizes.keys, index);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Mask& mask = entry.mask;
  const Range keys = tile_range(item.block, config.block_n, mask.seqlen_k);
  const i64 valid = min<i64>(config.block_n, mask.valid_k - item.block * config.block_n);
  const i64 heads = shape.sharing();
  const TileEntry* const entries = sizes.workspace.entries;
  const i64 first_entry = (item.batch * sizes.keys.blocks + item.block) * sizes.rows.blocks;
  const i64 diagonal = keys.begin - (mask.seqlen_k - mask.seqlen_q);
  const Range rows = m_block_range(mask, keys, config.block_m);
  Range full = valid == config.block_n ? full_m_block_range(mask, keys, config.block_m) : Range{};
  if (config.pattern) full = rows;  // which ones are not is looked up
  if (params.cu_seqlens_q != nullptr) full.end = min(full.end, mask.seqlen_q / config.block_m);
  return {
      .mask = mask,
      .keys = keys,
      .tiles = make_span(rows, full, entries == nullptr ? nullptr : entries + first_entry),
      .band_begin =
          static_cast<i32>(mask.right < 0 ? -kFar : max<i64>(-kFar, diagonal - mask.right)),
      .band_end = static_cast<i32>(mask.left < 0 ? kFar : min<i64>(kFar, diagonal + mask.left + 1)),
      .valid_keys = static_cast<i32>(max<i64>(0, valid)),
      .heads = static_cast<i32>(heads),
      .first_head = item.batch * shape.num_heads_q + item.head * heads,
      .key_offset = shape.k.offset(item.batch, item.head, entry.first_key + keys.begin),
      .map_batch = params.cu_seqlens_q != nullptr ? 0 : static_cast<i32>(item.batch),
      .head = static_cast<i32>(item.head * heads),
      .kv_head = static_cast<i32>(item.head),
      .first_row = static_cast<i32>(entry.first_row),
      .first_key = static_cast<i32>(entry.first_key + keys.begin)};
}

// Returns the number of a step's tile of rows in the workspace; `item` has the `first_head`. It
// fits 32 bits, since prepare_rows is launched with a block for each tile.
template <class Item>
__device__ i32 row_tile(const BackwardSizes& sizes, const Item& item,
                        const device::BackwardStep& step) {
  return (static_cast<i32>(item.first_head) + step.head) * static_cast<i32>(sizes.rows.blocks) +
         step.m_block;
}

// Does the loader's work in one thread: it starts the bulk copies of all tiles, in the order in
// which consumers need them.
template <BackwardConfig kConfig>
__device__ void load(const BackwardSizes& sizes, const BackwardMaps& maps,
                     const BackwardMemory<kConfig>& memory) {
  using device::BackwardStep;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  const BackwardWorkTile& sWorkTile = memory.work_tile();
  const auto copy = [&](const SlabTile& tile, const TensorMap& map, i32 to, i32 row, i32 head,
                        u32 barrier) {
    for (i32 slab = 0; slab < tile.slabs(); ++slab) {
      ptx::cp_async_bulk_tensor_4d(memory.at(to + slab * tile.slab_bytes()), map,
                                   slab * SlabTile::kColumns, row, head, sWorkTile.map_batch,
                                   barrier);
    }
  };
  BackwardStep step = BackwardStep::first<kConfig.deterministic>(sWorkTile);
  if (!step.exists(sWorkTile)) return;
  const u32 kv = memory.kv_ring.full(0);
  ptx::mbarrier_arrive_expect_tx(kv, static_cast<u32>(2 * kTiles.kv.bytes()));
  copy(kTiles.kv, maps.k, kTiles.k(), sWorkTile.first_key, sWorkTile.kv_head, kv);
  ATTNLAB_NOTE(BackwardTimeline(memory).start_keys();)
  copy(kTiles.kv, maps.v, kTiles.v(), sWorkTile.first_key, sWorkTile.kv_head, kv);

  constexpr u32 kStatisticBytes = static_cast<u32>(kTiles.statistic_bytes());
  constexpr u32 kBytes = static_cast<u32>(kTiles.q.bytes()) + kStatisticBytes;
  BackwardStages<kConfig> stages(producer_start());
  for (; step.exists(sWorkTile); step.advance<kConfig.deterministic>(sWorkTile), stages.advance()) {
    const float* const gStatistics =
        sizes.workspace.statistics + i64{row_tile(sizes, sWorkTile, step)} * (2 * kConfig.block_m);
    const i32 row = sWorkTile.first_row + step.m_block * kConfig.block_m;
    const i32 head = sWorkTile.head + step.head;
    const i32 q_stage = stages.q.stage, dout_stage = stages.dout.stage;
    memory.q_ring.wait_empty(stages.q);
    const u32 q = memory.q_ring.full(q_stage);
    ptx::mbarrier_arrive_expect_tx(q, kBytes);
    copy(kTiles.q, maps.q, kTiles.q_of(q_stage), row, head, q);
    ptx::cp_async_bulk(memory.at(kTiles.lse_of(q_stage)), gStatistics, kStatisticBytes, q);
    memory.dout_ring.wait_empty(stages.dout);
    const u32 dout = memory.dout_ring.full(dout_stage);
    ptx::mbarrier_arrive_expect_tx(dout, kBytes);
    copy(kTiles.q, maps.dout, kTiles.dout_of(dout_stage), row, head, dout);
    ptx::cp_async_bulk(memory.at(kTiles.delta_of(dout_stage)), gStatistics + kConfig.block_m,
                       kStatisticBytes, dout);
  }
}

}  // namespace attnlab::v3
