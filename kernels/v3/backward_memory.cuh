// Maps v3's backward's shared memory, and the rings by which the loader hands tiles to consumers.
//
//   ring       stages       filled by                            released by         arrivals
//   ---------  -----------  -----------------------------------  ------------------  -------------
//   kv_ring    1            loader: copies of K and V            nobody              -
//   q_ring     stages       loader: copies of Q and its log2_lse each consumer warp  4 * consumers
//   dout_ring  dout_stages  loader: copies of dO and its delta   each consumer warp  4 * consumers
//   dq_ring    stages       each consumer warp: its part of dQ   an adder            1
//
// Every warp releases a stage for itself, since its threads read log2_lse and delta by plain loads:
// dO behind the wait for dV, Q behind the wait for dK. dq_ring is there where dQ is summed in a
// fixed order; backward_turns.cuh has the adders.
#pragma once

#include "kernels/device/ring.cuh"
#include "kernels/ptx/cvta.cuh"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// BackwardStages says where a role stands in the rings of Q and dO; P and dS use Q's stage.
template <BackwardConfig kConfig>
struct BackwardStages {
  PipelineState q, dout;

  __device__ explicit BackwardStages(const PipelineState& start) : q(start), dout(start) {}
  __device__ void advance() {
    q.advance(kConfig.stages);
    if constexpr (kConfig.dout_stages() == kConfig.stages) {
      dout = q;  // one state for both: two of them spilled at head_dim 64 under a block pattern
    } else {
      dout.advance(kConfig.dout_stages());
    }
  }
};

// BackwardMemory is the shared memory of a block, as all roles see it.
template <BackwardConfig kConfig>
struct BackwardMemory {
  static constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  u8* memory;
  u32 shared;  // its address
  device::Ring<1> kv_ring;
  device::Ring<kConfig.stages> q_ring;
  device::Ring<kConfig.dout_stages()> dout_ring;

  __device__ explicit BackwardMemory(u8* place)
      : memory(place),
        shared(ptx::cvta_to_shared(place)),
        kv_ring{at(kTiles.kv_ring())},
        q_ring{at(kTiles.q_ring())},
        dout_ring{at(kTiles.dout_ring())} {}

  __device__ u32 at(i32 offset) const { return shared + static_cast<u32>(offset); }
  // Return the statistics at `offset`; an element is one row's, or those of two rows.
  __device__ const float* statistics(i32 offset) const {
    return reinterpret_cast<const float*>(memory + offset);
  }
  __device__ const float2* pairs(i32 offset) const {
    return reinterpret_cast<const float2*>(memory + offset);
  }
  __device__ device::Ring<kConfig.stages> dq_ring() const { return {at(kTiles.dq_ring())}; }
  // Returns which work item the block has, which in a fixed order it has claimed. Nobody keeps it
  // in a register.
  __device__ u32 index() const {
    if constexpr (kConfig.deterministic) return ticket();
    return blockIdx.x;
  }
  __device__ u32& ticket() const { return *reinterpret_cast<u32*>(memory + kTiles.ticket()); }
  __device__ BackwardWorkTile& work_tile() const {
    return *reinterpret_cast<BackwardWorkTile*>(memory + kTiles.work_tile());
  }

  // One thread calls it, before a barrier of the block.
  __device__ void init_rings() const {
    constexpr u32 kWarps = device::arrivals_of(4 * kConfig.consumers());
    kv_ring.init(1);
    q_ring.init(kWarps);
    dout_ring.init(kWarps);
    if constexpr (kConfig.deterministic) dq_ring().init(1, kWarps);
    ptx::fence_mbarrier_init();
  }
};

}  // namespace attnlab::v3
