// Maps v3's forward's shared memory, and the rings by which its roles hand tiles to one another.
//
//   ring            stages           filled by             released by            arrivals
//   --------------  ---------------  --------------------  ---------------------  -----------------
//   q_ring          q_stages         loader: copy of Q     each consumer warp     4 * consumers
//   k_ring          stages           loader: copy of K     one thread a consumer  consumers
//     of e4m3                                              each consumer warp     4 * consumers
//   v_ring          stages           loader: copy of V     one thread a consumer  consumers
//   work_tile_ring  kWorkTileStages  scheduler: work tile  warps, and the loader  4 * consumers + 1
//   asked           one barrier      loader: nothing       nobody                 1
//
// Each stage has two mbarriers (kernels/device/ring.cuh). On `full` arrive the thread that fills
// the stage and the bytes of its copy; work_tile_ring gets no bytes, as the scheduler writes a
// ForwardWorkTile with plain stores. (Of e4m3 it writes an E4m3WorkTile, too, and the loader writes
// TileScales before it arrives for K.) On `empty` arrive those who release the stage, once they do
// not read it any more:
//
//   q_ring          when the warp's rows of O, which go out by way of Q's place, have left it; with
//                   separate_o behind the item's last S
//   k_ring          behind wgmma's wait for S: no warp of the warpgroup reads K then, so that one
//                   thread speaks for all. Of e4m3 plain loads read the scales of the stage, too,
//                   and each warp speaks for its own
//   v_ring          behind the wait for P V, likewise
//   work_tile_ring  warps at the end of the work item, the loader once it has started its last copy
//
// `asked` is one mbarrier, which holds nothing. At it the loader asks for the next work item, once
// an item: where the copy of the last K is under way (ForwardConfig::asks_early: of the last but
// one), and of an item without tiles at once. The scheduler claims an item from the launch's
// counter behind that, so that no block holds items that another could begin. A static stride has
// nothing to claim, and there nobody waits for it.
#pragma once

#include "kernels/device/ring.cuh"
#include "kernels/ptx/cvta.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// ForwardMemory is the shared memory of a block, as all roles see it.
template <ForwardConfig kConfig>
struct ForwardMemory {
  u8* memory;
  u32 shared;  // its address
  device::Ring<kConfig.q_stages> q_ring;
  device::Ring<kConfig.stages> k_ring, v_ring;
  device::Ring<kWorkTileStages> work_tile_ring;
  u32 asked;  // a barrier

  __device__ explicit ForwardMemory(u8* place)
      : memory(place),
        shared(ptx::cvta_to_shared(place)),
        q_ring{at(forward_tiles(kConfig).q_ring())},
        k_ring{at(forward_tiles(kConfig).k_ring())},
        v_ring{at(forward_tiles(kConfig).v_ring())},
        work_tile_ring{at(forward_tiles(kConfig).work_tile_ring())},
        asked(at(forward_tiles(kConfig).asked())) {}

  __device__ u32 at(i32 offset) const { return shared + static_cast<u32>(offset); }
  __device__ ForwardWorkTile& work_tile(i32 stage) const {
    constexpr ForwardTiles kTiles = forward_tiles(kConfig);
    return *reinterpret_cast<ForwardWorkTile*>(memory + kTiles.work_tile(stage));
  }
  __device__ E4m3WorkTile& e4m3_work_tile(i32 stage) const {
    constexpr ForwardTiles kTiles = forward_tiles(kConfig);
    return *reinterpret_cast<E4m3WorkTile*>(memory + kTiles.e4m3_work_tile(stage));
  }
  __device__ TileScales& scales(i32 stage) const {
    constexpr ForwardTiles kTiles = forward_tiles(kConfig);
    return *reinterpret_cast<TileScales*>(memory + kTiles.scales(stage));
  }

  // Returns the phase of `asked` that ends when item n - 1 asks for item n, the one of `state`.
  // Phase and stage both alternate, and item 1 has stage 1 and phase 0: the parity is stage ^ 1.
  __device__ device::Phase when_asked(const PipelineState& state) const {
    static_assert(kWorkTileStages == 2);
    return {asked, static_cast<u32>(state.stage ^ 1)};
  }

  // One thread calls it, before __syncthreads().
  __device__ void init_rings() const {
    constexpr u32 kWarps = device::arrivals_of(4 * kConfig.consumers);
    q_ring.init(kWarps);
    k_ring.init(kConfig.e4m3 ? kWarps : kConfig.consumers);
    v_ring.init(kConfig.consumers);
    work_tile_ring.init(kWarps + 1);
    ptx::mbarrier_init(asked, 1);
    ptx::fence_mbarrier_init();
  }
};

}  // namespace attnlab::v3
