// Implements v3's loader on a GPU: it starts the bulk copies of all tiles.
#pragma once

#include "kernels/ptx/tma.cuh"
#include "kernels/shared/quantise.h"
#include "kernels/v3/shared_memory.cuh"
#include "kernels/v3/timeline.cuh"

namespace attnlab::v3 {

// Starts the copies of all tiles, in the order in which consumers need them: of an item the first K
// and Q, then always the next K before this V. A step is a tile, or a look at the next work tile.
// Tiles of e4m3 go from the last to the first, and what a tile is scaled by comes with its K: it is
// read from global memory a step ahead.
template <ForwardConfig kConfig>
class Loader {
 public:
  __device__ Loader(const ForwardMaps& maps, const ForwardMemory<kConfig>& memory)
      : maps_(maps), memory_(memory) {}

  __device__ bool is_done() const { return next_ == Next::nothing; }
  // Returns what a step must wait for.
  __device__ device::Phase needs() const {
    if (next_ == Next::item) return memory_.work_tile_ring.when_full(stage_);
    if (next_ == Next::k) return memory_.k_ring.when_empty(k_);
    if (next_ == Next::q) return memory_.q_ring.when_empty(q_);
    return memory_.v_ring.when_empty(v_);
  }
  __device__ void step() {
    const ForwardWorkTile& sWorkTile = memory_.work_tile(stage_.stage);
    if (next_ == Next::item) {
      tile_ = sWorkTile.tiles.template first<kConfig.e4m3>();
      next_ = Next::k;
      if (sWorkTile.ends) {
        next_ = Next::nothing;
      } else if (sWorkTile.tiles.template is_past<kConfig.e4m3>(tile_)) {
        ask_for_item();
        end_item();
      } else {
        read_scales();
      }
    } else if (next_ == Next::k) {
      if constexpr (kConfig.e4m3) memory_.scales(k_.stage) = scales_;
      load_keys(sWorkTile, maps_.k, tile_, kTiles.k_tile(k_.stage), memory_.k_ring.full(k_.stage));
      ATTNLAB_NOTE(const bool is_first = tile_ == sWorkTile.tiles.begin;)
      ATTNLAB_NOTE(Timeline(memory_).start_keys(stage_.stage, is_first);)
      k_.advance(kConfig.stages);
      next_ = tile_ == sWorkTile.tiles.template first<kConfig.e4m3>() ? Next::q : Next::v;
    } else if (next_ == Next::q) {
      load(kTiles.q, maps_.q, kTiles.q_tile(q_.stage), memory_.q_ring.full(q_.stage),
           sWorkTile.first_row, sWorkTile.head, sWorkTile.map_batch);
      q_.advance(kConfig.q_stages);
      go_on(sWorkTile);
    } else {
      load_values(sWorkTile, before_, kTiles.v_tile(v_.stage), memory_.v_ring.full(v_.stage));
      v_.advance(kConfig.stages);
      if (before_ == tile_) {
        end_item();
      } else {
        go_on(sWorkTile);
      }
    }
  }

 private:
  static constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  enum class Next : i32 { item, k, q, v, nothing };

  __device__ void load(const SlabTile& tile, const TensorMap& map, i32 to, u32 barrier, i32 row,
                       i32 head, i32 map_batch, i32 column = 0) const {
    ptx::mbarrier_arrive_expect_tx(barrier, static_cast<u32>(tile.bytes()));
    for (i32 slab = 0; slab < tile.slabs(); ++slab) {
      ptx::cp_async_bulk_tensor_4d(memory_.at(to + slab * tile.slab_bytes()), map,
                                   column + slab * tile.slab_columns(), row, head, map_batch,
                                   barrier);
    }
  }
  __device__ void load_keys(const ForwardWorkTile& sWorkTile, const TensorMap& map, i32 tile,
                            i32 to, u32 barrier) const {
    load(kTiles.k, map, to, barrier, sWorkTile.first_key + tile * kConfig.block_n,
         sWorkTile.kv_head, sWorkTile.map_batch);
  }
  __device__ void load_values(const ForwardWorkTile& sWorkTile, i32 tile, i32 to,
                              u32 barrier) const {
    if constexpr (kConfig.e4m3) {  // keys are columns of V^T
      const i32 first_key = memory_.e4m3_work_tile(stage_.stage).first_key;
      load(kTiles.v, maps_.v, to, barrier, 0, sWorkTile.kv_head, sWorkTile.map_batch,
           first_key + tile * kConfig.block_n);
    } else {
      load_keys(sWorkTile, maps_.v, tile, to, barrier);
    }
  }
  // Reads the scales of tile_, for the step that copies its K.
  __device__ void read_scales() {
    if constexpr (kConfig.e4m3) {
      const E4m3WorkTile& sE4m3 = memory_.e4m3_work_tile(stage_.stage);
      const i64 block = static_cast<i64>(tile_) * kConfig.block_n / kScaleRows;
      scales_.k = sE4m3.scales_k[block];
      scales_.v = kConfig.v_columns ? 1.0f : sE4m3.scales_v[block];
    }
  }
  // Goes on to the next K, or, behind the last one, to its own V.
  __device__ void go_on(const ForwardWorkTile& sWorkTile) {
    const TileSpan& tiles = sWorkTile.tiles;
    const i32 ahead = tiles.template next<kConfig.e4m3>(tile_);
    const bool was_last = tiles.template is_past<kConfig.e4m3>(ahead);
    if (!kConfig.asks_early()) {
      if (was_last) ask_for_item();
    } else if (was_last ? tile_ == tiles.template first<kConfig.e4m3>()
                        : tiles.template is_past<kConfig.e4m3>(
                              tiles.template next<kConfig.e4m3>(ahead))) {
      ask_for_item();
    }
    before_ = tile_;
    next_ = Next::v;
    if (!was_last) {
      tile_ = ahead;
      next_ = Next::k;
      read_scales();
    }
  }
  // Lets the scheduler claim the next item, once an item: as late as that can be ready in time. A
  // block that claims early holds what others could begin, at the end of a launch above all.
  __device__ void ask_for_item() const { ptx::mbarrier_arrive(memory_.asked); }
  __device__ void end_item() {
    memory_.work_tile_ring.release(stage_);
    stage_.advance(kWorkTileStages);
    next_ = Next::item;
  }

  const ForwardMaps& maps_;
  const ForwardMemory<kConfig>& memory_;
  PipelineState q_ = producer_start(), k_ = producer_start(), v_ = producer_start();
  PipelineState stage_ = consumer_start();
  Next next_ = Next::item;
  i32 tile_ = 0;    // of the last K
  i32 before_ = 0;  // of the next V
  TileScales scales_ = {};
};

}  // namespace attnlab::v3
