// What v3's producer does on a GPU: finding out what a block has to do next, and starting copies of
// tiles. Each is a thread's, which makes one step after the other: in a warpgroup of its own, the
// producer, or, where there is none, between a consumer's products.
#pragma once

#include "kernels/device/ring.cuh"
#include "kernels/ptx/cvta.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// A block's shared memory as its roles see it.
template <ForwardConfig kConfig>
struct ForwardMemory {
  u8* memory;
  u32 shared;  // its address
  device::Ring<kConfig.q_stages> q_ring;
  device::Ring<kConfig.stages> k_ring, v_ring;
  device::Ring<kBlockStages> block_ring;

  __device__ explicit ForwardMemory(u8* place)
      : memory(place),
        shared(ptx::cvta_to_shared(place)),
        q_ring{at(forward_tiles(kConfig).q_ring())},
        k_ring{at(forward_tiles(kConfig).k_ring())},
        v_ring{at(forward_tiles(kConfig).v_ring())},
        block_ring{at(forward_tiles(kConfig).block_ring())} {}

  __device__ u32 at(i32 offset) const { return shared + static_cast<u32>(offset); }
  __device__ ForwardBlock& block(i32 stage) const {
    constexpr ForwardTiles kTiles = forward_tiles(kConfig);
    return *reinterpret_cast<ForwardBlock*>(memory + kTiles.block(stage));
  }
};

// What work item `index` has to do. Field by field into shared memory, and read from there: the
// scheduler has few registers.
__device__ inline void find_block(const Params& params, const WorkGrid& grid,
                                  const ForwardConfig& config, const TileEntry* entries, i64 index,
                                  ForwardBlock& sBlock) {
  const Shape& shape = params.shape;
  const auto settle = [] { asm volatile("" ::: "memory"); };
  i32 block;
  {
    const WorkItem item = work_item(grid, index);
    block = static_cast<i32>(item.block);
    sBlock.head = static_cast<i32>(item.head);
    sBlock.kv_head = static_cast<i32>(shape.kv_head(item.head));
    sBlock.batch = static_cast<i32>(item.batch);
  }
  settle();
  {
    const BatchEntry entry = batch_entry(params, sBlock.batch);
    sBlock.mask = entry.mask;
    sBlock.first_row = static_cast<i32>(entry.first_row) + block * config.block_m();
    sBlock.first_key = static_cast<i32>(entry.first_key);
  }
  settle();
  sBlock.rows = tile_range(block, config.block_m(), sBlock.mask.seqlen_q);
  settle();
  sBlock.num_rows = static_cast<i32>(sBlock.rows.size());
  settle();
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
  settle();
  sBlock.row_offset = shape.q.offset(sBlock.batch, sBlock.head, sBlock.first_row);
  settle();
  sBlock.lse_offset = shape.row_statistic_offset(sBlock.batch, sBlock.head, sBlock.rows.begin);
  sBlock.slice = sBlock.batch * shape.num_heads_q + sBlock.head;
  settle();
  {
    const i64 n_blocks = ceil_div<i64>(shape.seqlen_k, config.block_n);
    const TileEntry* const own_entries =
        entries == nullptr ? nullptr : entries + (sBlock.batch * grid.blocks + block) * n_blocks;
    const Range all = n_block_range(sBlock.mask, sBlock.rows, config.block_n);
    sBlock.tiles = {.begin = static_cast<i32>(all.begin),
                    .end = static_cast<i32>(all.end),
                    .entries = own_entries};
  }
  settle();
  {
    const Range full = full_n_block_range(sBlock.mask, sBlock.rows, config.block_n);
    sBlock.tiles.full_begin = static_cast<i32>(full.begin);
    sBlock.tiles.full_end = static_cast<i32>(full.end);
  }
  settle();
  sBlock.tiles.begin = sBlock.tiles.not_empty(sBlock.tiles.begin);
  if (params.cu_seqlens_q != nullptr) sBlock.batch = 0;  // a packed tensor has one
}

// Says which work items the block has, ahead of those who work on them. A step is an item.
template <ForwardConfig kConfig>
class Scheduler {
 public:
  // next_item counts the items that blocks have taken beyond their first ones; null: each takes
  // every so many-th.
  __device__ Scheduler(const Params& params, const WorkGrid& grid, const TileEntry* entries,
                       u32* next_item, const ForwardMemory<kConfig>& memory)
      : params_(params), grid_(grid), entries_(entries), next_item_(next_item), memory_(memory) {}

  __device__ bool is_done() const { return is_done_; }
  // What a step must wait for.
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

// Starts the copies of all tiles, in the order in which consumers need them: of an item the first K
// and Q, then always the next K before this V. A step is a tile, or the look at what item is next.
template <ForwardConfig kConfig>
class Loader {
 public:
  __device__ Loader(const ForwardMaps& maps, const ForwardMemory<kConfig>& memory)
      : maps_(maps), memory_(memory) {}

  __device__ bool is_done() const { return next_ == Next::nothing; }
  // What a step must wait for.
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

// A worker's steps until all is done.
template <class Worker>
__device__ void work(Worker worker) {
  while (!worker.is_done()) {
    device::wait(worker.needs());
    worker.step();
  }
}
// A step, unless it would have to wait.
template <class Worker>
__device__ void work_if_ready(Worker& worker) {
  if (!worker.is_done() && device::is_over(worker.needs())) worker.step();
}

}  // namespace attnlab::v3
