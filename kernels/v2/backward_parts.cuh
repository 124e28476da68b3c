// Divides the work of a block of v2's backward among warps, and maps its shared memory.
#pragma once

#include "kernels/device/warp_part.cuh"
#include "kernels/ptx/cvta.cuh"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// BackwardParts says which warp has which part of the products.
template <BackwardConfig kConfig>
struct BackwardParts {
  static constexpr WarpGrid kScores =
      kConfig.p_in_registers ? WarpGrid{kConfig.warps, 1}
                             : warp_grid(kConfig.warps, kConfig.block_n, kConfig.block_m);
  static constexpr WarpGrid kKeys =
      kConfig.p_in_registers ? kScores
                             : warp_grid(kConfig.warps, kConfig.block_n, kConfig.head_dim);
  static constexpr WarpGrid kRows = warp_grid(kConfig.warps, kConfig.block_m, kConfig.head_dim);
  using TransposedScores =
      device::TransposedScoresPart<kScores, kConfig.block_n, kConfig.block_m>;  // S^T, dP^T
  using Keys = device::WarpPart<kKeys, kConfig.block_n, kConfig.head_dim>;      // dK, dV
  using Rows = device::WarpPart<kRows, kConfig.block_m, kConfig.head_dim>;      // dQ
};

// BackwardMemory is a block's shared memory: addresses of its tiles, and what threads access there.
template <BackwardConfig kConfig>
struct BackwardMemory {
  static constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  u8* memory;
  u32 shared;  // its address

  __device__ explicit BackwardMemory(u8* place)
      : memory(place), shared(ptx::cvta_to_shared(place)) {}

  __device__ u32 at(i32 offset) const { return shared + static_cast<u32>(offset); }
  __device__ u32 k() const { return at(kTiles.k()); }
  __device__ u32 v() const { return at(kTiles.v()); }
  __device__ u32 q(i32 stage) const { return at(kTiles.q_of(stage)); }
  __device__ u32 dout(i32 stage) const { return at(kTiles.dout_of(stage)); }
  __device__ u32 p() const { return at(kTiles.p_shared()); }
  __device__ u32 ds() const { return at(kTiles.ds()); }
  __device__ const float* lse(i32 stage) const {
    return reinterpret_cast<const float*>(memory + kTiles.lse_of(stage));
  }
  // Returns the statistics at `offset` of rows `row` and the next.
  __device__ float2 pair(i32 offset, i32 row) const {
    return *reinterpret_cast<const float2*>(memory + offset + 4 * row);
  }
  __device__ BackwardBlock& block() const {
    return *reinterpret_cast<BackwardBlock*>(memory + kTiles.block());
  }
};

}  // namespace attnlab::v2
