// Holds what the consumers of v3's backward do alike, whichever part of dK and dV each of them has:
// how they meet, their walk through an item's steps, rows that do not exist, and the store of dK
// and dV.
#pragma once

#include "kernels/device/bool_constant.cuh"
#include "kernels/device/warp_uniform.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/v3/backward_work.cuh"

namespace attnlab::v3 {

// Waits at the named barrier of all consumers.
template <BackwardConfig kConfig>
__device__ void sync_consumers() {
  ptx::barrier_sync(1, kConfig.consumers() * device::kWarpgroup);
}

// OutOfPhase has further named barriers of two consumers that have keys of their own, for tiles of
// 64 rows: one at which the second waits in each step until the first has S^T and dP^T; for each
// consumer and stage one of its dS, for which the other waits; and one of its own four warps. No
// warp may arrive at a barrier once more before all have been there. Whoever has waited for a dS
// knows that the other's warps have left the wait of the step before behind them, not that of this
// step: so barriers of dS alternate, as its stages do.
template <BackwardConfig kConfig>
struct OutOfPhase {
  static constexpr bool kIsOn = kConfig.block_m == 64;

  static __device__ void wait_for_first() { ptx::barrier_sync(kFirst, kBoth); }
  static __device__ void arrive_as_first() { ptx::barrier_arrive(kFirst, kBoth); }
  static __device__ void arrive_with_ds(i32 consumer, i32 stage) {
    ptx::barrier_arrive(kDS + 2 * stage + consumer, kBoth);
  }
  static __device__ void wait_for_ds(i32 consumer, i32 stage) {
    ptx::barrier_sync(kDS + 2 * stage + consumer, kBoth);
  }
  static __device__ void sync_own(i32 consumer) {
    ptx::barrier_sync(kOwn + consumer, device::kWarpgroup);
  }

 private:
  static_assert(kConfig.stages == 2);
  static constexpr i32 kBoth = 2 * device::kWarpgroup;
  static constexpr i32 kFirst = 2, kDS = 3, kOwn = 7;
};

// Gives a stage back, for the whole warp.
template <i32 kStages>
__device__ void release_by_warp(const device::Ring<kStages>& ring, const PipelineState& stage) {
  if (device::arrives_for_warp(device::opaque(device::own_lane()))) ring.release(stage);
}

// Zeroes the rows of a tile from `valid` on, by all consumers: in packed tensors, and of padded
// keys, they may hold anything, and 0 times that must be 0. (Bulk copies fill with zeros what lies
// outside of the tensor.)
template <BackwardConfig kConfig>
__device__ void clear_rows(const SlabTile& tile, u8* sTile, i32 valid) {
  const i32 chunks = tile.columns / device::kChunk;
  const i32 thread = static_cast<i32>(threadIdx.x) - device::kWarpgroup;
  for (i32 i = valid * chunks + thread; i < tile.rows * chunks;
       i += kConfig.consumers() * device::kWarpgroup) {
    *reinterpret_cast<uint4*>(sTile + tile.offset(i / chunks, i % chunks)) = {0, 0, 0, 0};
  }
}

// Zeroes the rows of Q and dO behind the last one of a packed entry, which are the next one's.
template <BackwardConfig kConfig>
__device__ void clear_rows_past_end(const BackwardMemory<kConfig>& memory, i32 m_block,
                                    const BackwardStages<kConfig>& stages) {
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  const i32 exist = static_cast<i32>(memory.work_tile().mask.seqlen_q) - m_block * kConfig.block_m;
  if (exist >= kConfig.block_m) return;
  clear_rows<kConfig>(kTiles.q, memory.memory + kTiles.q_of(stages.q.stage), exist);
  clear_rows<kConfig>(kTiles.q, memory.memory + kTiles.dout_of(stages.dout.stage), exist);
  ptx::fence_proxy_async_shared();
  sync_consumers<kConfig>();
}

// Waits for K and V, and zeroes their rows that do not exist.
template <BackwardConfig kConfig>
__device__ void wait_for_keys(const Params& params, const BackwardMemory<kConfig>& memory) {
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  memory.kv_ring.wait_full(consumer_start());
  const i32 valid = memory.work_tile().valid_keys;
  if (valid < kConfig.block_n && (params.keys != nullptr || params.cu_seqlens_k != nullptr)) {
    clear_rows<kConfig>(kTiles.kv, memory.memory + kTiles.k(), valid);
    clear_rows<kConfig>(kTiles.kv, memory.memory + kTiles.v(), valid);
    ptx::fence_proxy_async_shared();
    sync_consumers<kConfig>();
  }
}

// ItemSteps is what a walk through an item's steps needs of its work tile, in registers. Between
// the last product of a step and the first one of the next no product of the consumer is in flight,
// and loads from shared memory, one behind the other, took 3 to 10 % of a step there (TUNING.md,
// b8).
template <BackwardConfig kConfig>
struct ItemSteps {
  TileSpan tiles;
  i32 heads;
  i32 first_head;

  __device__ explicit ItemSteps(const BackwardWorkTile& work_tile)
      : tiles(work_tile.tiles),
        heads(work_tile.heads),
        first_head(static_cast<i32>(work_tile.first_head)) {
    if constexpr (!kConfig.pattern) tiles.entries = nullptr;  // the compiler knows it then
  }
};

// Calls work_on(is_masked, step, tile, stages) for each step of the block's item; `tile` is the
// number of the step's tile of rows in the workspace.
template <BackwardConfig kConfig, class WorkOn>
__device__ void for_steps(const BackwardSizes& sizes, const BackwardMemory<kConfig>& memory,
                          const WorkOn& work_on) {
  using namespace device;
  const auto walk = [&](const auto& item) {
    BackwardStep step = BackwardStep::first<kConfig.deterministic>(item);
    if (step.exists(item)) wait_for_keys<kConfig>(sizes.params, memory);
    BackwardStages<kConfig> stages(consumer_start());
    ATTNLAB_NOTE(if (step.exists(item)) memory.q_ring.wait_full(stages.q);)
    ATTNLAB_NOTE(
        BackwardTimeline(memory).start_product(step.exists(item) && threadIdx.x == kWarpgroup);)
    for (; step.exists(item); step.advance<kConfig.deterministic>(item)) {
      // TileSpan::is_partial<false>() says the same, but if it is called, one of the comparisons
      // leaves the uniform registers.
      const i32 m_block = step.m_block;
      bool is_masked = m_block < item.tiles.full_begin || m_block >= item.tiles.full_end;
      if constexpr (kConfig.pattern) {
        is_masked = warp_uniform(is_masked || item.tiles.is_partial(m_block));
      }
      const i32 tile = row_tile(sizes, item, step);
      if (is_masked) {
        work_on(BoolConstant<true>{}, step, tile, stages);
      } else {
        work_on(BoolConstant<false>{}, step, tile, stages);
      }
      stages.advance();
    }
  };
  if constexpr (kConfig.keeps_steps()) {
    walk(ItemSteps<kConfig>(memory.work_tile()));
  } else {
    walk(memory.work_tile());
  }
}

// Copies at most kCount keys of dK or dV by a warp, as the tile at `offset` has them, from
// `first_key` on.
template <i32 kCount, class T, BackwardConfig kConfig>
__device__ void copy_keys(const Shape& shape, const BackwardMemory<kConfig>& memory, i32 offset,
                          i32 first_key, T* gKeys) {
  using namespace device;
  constexpr SlabTile kTile = backward_tiles(kConfig).kv;
  constexpr i32 kChunks = kTile.columns / kChunk;  // of a row, some of them beyond head_dim
  const BackwardWorkTile& sWorkTile = memory.work_tile();
  const i32 chunks = static_cast<i32>(shape.head_dim) / kChunk;
  const i32 exist = min(kCount, static_cast<i32>(sWorkTile.keys.size()) - first_key);
  T* const gRows = gKeys + sWorkTile.key_offset + first_key * shape.k.row;
  const i32 lane = opaque(own_lane());
#pragma unroll
  for (i32 i = 0; i < ceil_div(kCount * kChunks, kWarp); ++i) {
    const i32 row = (i * kWarp + lane) / kChunks, chunk = (i * kWarp + lane) % kChunks;
    if (row >= exist || chunk >= chunks) continue;
    *reinterpret_cast<uint4*>(gRows + row * shape.k.row + chunk * kChunk) =
        *reinterpret_cast<const uint4*>(memory.memory + offset +
                                        kTile.offset(first_key + row, chunk));
  }
}

}  // namespace attnlab::v3
