// Adds the parts of dQ in a fixed order, by ascending keys, so that its bits are the same at every
// launch.
//
// A word for each tile of rows names the tile of keys that has added to it last. Whoever sees there
// the one that comes before its own has its turn: it adds, waits until what it added has arrived,
// and names itself. A block takes a ticket as it begins, and tickets go by ascending keys: the
// lowest unfinished item is in work and waits for nobody, however few blocks are resident.
//
// Tiles of rows are walked down. Under a causal mask or a window the last rows that see a tile of
// keys come first then: there no key comes before its own, or the blocks before it have been. So
// blocks that begin together are a step apart at most, and the long items of a causal mask still go
// first. Walked up, each would wait at the diagonal until its neighbour had come so far.
//
// Consumers wait for no turn. Threads of the producer's warpgroup, the adders, do: one for each
// stage, so that a turn may take two steps. Consumers' warps stage their parts, and the adder adds
// the whole tile by one bulk copy; where no memory is left for that, the adder lets them know that
// it is their turn, and they add.
#pragma once

#include "kernels/ptx/acquire_release.cuh"
#include "kernels/v3/backward_work.cuh"
#include "kernels/v3/dq_sums.cuh"

namespace attnlab::v3 {

// Claims a work item for the block, the next one of `kernel`. A barrier of the block must lie
// between the last look at the ticket and the next claim.
__device__ inline void claim_item(const BackwardSizes& sizes, i32 kernel, u32& sTicket) {
  if (threadIdx.x == 0) {
    sTicket = atomicAdd(turns_of(sizes.workspace, work_items(sizes.rows)).tickets + kernel, 1u);
  }
  __syncthreads();
}

// Waits until `added` is the number that comes before a thread's own.
__device__ inline void wait_for_turn(const i32* added, i32 before) {
  while (ptx::ld_acquire_gpu_global(added) != before) {
  }
}

// Returns the tile of keys that adds to a step's rows before n_block.
template <BackwardConfig kConfig>
__device__ i32 added_before(const BackwardTurns& turns, const BackwardWorkspace& workspace,
                            const BackwardWorkTile& work_tile, i32 n_block, i32 m_block) {
  if constexpr (!kConfig.pattern) return n_block - 1;
  return turns.seen_before[work_tile.tiles.entries - workspace.entries + m_block];
}

// Does an adder's work in one thread: every other step, those of `stage`.
template <BackwardConfig kConfig>
__device__ void add_by_turns(const BackwardSizes& sizes, const BackwardMemory<kConfig>& memory,
                             i32 stage) {
  using device::BackwardStep;
  static_assert(kConfig.stages == 2, "there are two adders");
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  const BackwardWorkTile& sWorkTile = memory.work_tile();
  const BackwardTurns turns = turns_of(sizes.workspace, work_items(sizes.rows));
  const i32 n_block = static_cast<i32>(sWorkTile.keys.begin) / kConfig.block_n;
  const auto dq_ring = memory.dq_ring();
  PipelineState own = consumer_start();
  own.stage = stage;
  BackwardStep step = BackwardStep::first<kConfig.deterministic>(sWorkTile);
  if (stage == 1) step.advance<kConfig.deterministic>(sWorkTile);
  while (step.exists(sWorkTile)) {
    const i64 tile = row_tile(sizes, sWorkTile, step);
    const i32 before =
        added_before<kConfig>(turns, sizes.workspace, sWorkTile, n_block, step.m_block);
    if constexpr (kConfig.dq_stages() > 0) {
      dq_ring.wait_full(own);
      wait_for_turn(turns.added + tile, before);
      ptx::fence_proxy_async_global();
      ptx::cp_reduce_async_bulk_add_f32(dq_sums_of<kConfig>(sizes.workspace, tile),
                                        memory.at(kTiles.dq() + stage * kConfig.dq_bytes()),
                                        static_cast<u32>(kConfig.dq_bytes()));
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read<0>();
      dq_ring.release(own);
      ptx::cp_async_bulk_wait_group<0>();
    } else {
      wait_for_turn(turns.added + tile, before);
      dq_ring.release(own);
      dq_ring.wait_full(own);
    }
    ptx::st_release_gpu_global(turns.added + tile, n_block);
    own.phase ^= 1;
    step.advance<kConfig.deterministic>(sWorkTile);
    step.advance<kConfig.deterministic>(sWorkTile);
  }
}

// Waits until a consumer's warp may put its part of dQ of a step where it belongs: to shared
// memory, if it is staged there, which the first time is free, else to the sums.
template <BackwardConfig kConfig>
__device__ void wait_to_put_dq(const BackwardMemory<kConfig>& memory,
                               const BackwardStages<kConfig>& stages) {
  device::wait({memory.dq_ring().empty(stages.q.stage),
                stages.q.phase ^ static_cast<u32>(kConfig.dq_stages() > 0)});
}

// Tells the step's adder that the warp has done so.
template <BackwardConfig kConfig>
__device__ void tell_dq_is_put(const BackwardMemory<kConfig>& memory,
                               const BackwardStages<kConfig>& stages) {
  __syncwarp();
  if (device::arrives_for_warp(device::opaque(device::own_lane()))) {
    ptx::mbarrier_arrive(memory.dq_ring().full(stages.q.stage));
  }
}

}  // namespace attnlab::v3
