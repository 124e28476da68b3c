// v3's loader on a GPU: it starts the bulk copies of all tiles.
#pragma once

#include "kernels/ptx/tma.cuh"
#include "kernels/v3/shared_memory.cuh"

namespace attnlab::v3 {

// Starts the copies of all tiles, in the order in which consumers need them: of an item the first K
// and Q, then always the next K before this V. A step is a tile, or the look at what item is next.
template <ForwardConfig kConfig>
class Loader {
 public:
  __device__ Loader(const ForwardMaps& maps, const ForwardMemory<kConfig>& memory)
      : maps_(maps), memory_(memory) {}

  __device__ bool is_done() const { return next_ == Next::nothing; }
  // Returns what a step must wait for.
  __device__ device::Phase needs() const {
    if (next_ == Next::item) return memory_.block_ring.when_full(stage_);
    if (next_ == Next::k) return memory_.k_ring.when_empty(k_);
    if (next_ == Next::q) return memory_.q_ring.when_empty(q_);
    return memory_.v_ring.when_empty(v_);
  }
  __device__ void step() {
    const ForwardBlock& sBlock = memory_.block(stage_.stage);
    if (next_ == Next::item) {
      tile_ = sBlock.tiles.begin;
      next_ = Next::k;
      if (sBlock.ends) {
        next_ = Next::nothing;
      } else if (tile_ >= sBlock.tiles.end) {
        end_item();
      }
    } else if (next_ == Next::k) {
      load_keys(sBlock, maps_.k, tile_, kTiles.k_tile(k_.stage), memory_.k_ring.full(k_.stage));
      k_.advance(kConfig.stages);
      next_ = tile_ == sBlock.tiles.begin ? Next::q : Next::v;
    } else if (next_ == Next::q) {
      load(kTiles.q, maps_.q, kTiles.q_tile(q_.stage), memory_.q_ring.full(q_.stage),
           sBlock.first_row, sBlock.head, sBlock.batch);
      q_.advance(kConfig.q_stages);
      go_on(sBlock);
    } else {
      load_keys(sBlock, maps_.v, before_, kTiles.v_tile(v_.stage), memory_.v_ring.full(v_.stage));
      v_.advance(kConfig.stages);
      if (before_ == tile_) {
        end_item();
      } else {
        go_on(sBlock);
      }
    }
  }

 private:
  static constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  enum class Next : i32 { item, k, q, v, nothing };

  __device__ void load(const SlabTile& tile, const TensorMap& map, i32 to, u32 barrier, i32 row,
                       i32 head, i32 batch) const {
    ptx::mbarrier_arrive_expect_tx(barrier, static_cast<u32>(tile.bytes()));
    for (i32 slab = 0; slab < tile.slabs(); ++slab) {
      ptx::cp_async_bulk_tensor_4d(memory_.at(to + slab * tile.slab_bytes()), map,
                                   slab * SlabTile::kColumns, row, head, batch, barrier);
    }
  }
  __device__ void load_keys(const ForwardBlock& sBlock, const TensorMap& map, i32 tile, i32 to,
                            u32 barrier) const {
    load(kTiles.kv, map, to, barrier, sBlock.first_key + tile * kConfig.block_n, sBlock.kv_head,
         sBlock.batch);
  }
  // To the next K, or, behind the last one, to its own V.
  __device__ void go_on(const ForwardBlock& sBlock) {
    before_ = tile_;
    const i32 ahead = sBlock.tiles.not_empty(tile_ + 1);
    next_ = Next::v;
    if (ahead < sBlock.tiles.end) {
      tile_ = ahead;
      next_ = Next::k;
    }
  }
  __device__ void end_item() {
    memory_.block_ring.release(stage_);
    stage_.advance(kBlockStages);
    next_ = Next::item;
  }

  const ForwardMaps& maps_;
  const ForwardMemory<kConfig>& memory_;
  PipelineState q_ = producer_start(), k_ = producer_start(), v_ = producer_start();
  PipelineState stage_ = consumer_start();
  Next next_ = Next::item;
  i32 tile_ = 0;    // of the last K
  i32 before_ = 0;  // of the next V
};

}  // namespace attnlab::v3
