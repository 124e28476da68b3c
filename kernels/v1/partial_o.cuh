// O of the rows of a warp's share while tiles of keys pass by, fp32 in device memory.
#pragma once

#include "kernels/ptx/cp_async.cuh"
#include "kernels/v1/forward_team.cuh"

namespace attnlab::v1 {

// O of a tile of rows: it comes at each step, by way of shared memory or, where that has no room
// for it (keeps_o), in registers, and goes back.
template <ForwardConfig kConfig>
struct PartialO {
  using Share = ForwardShare<kConfig>;
  static constexpr i32 kOwnRows = Share::kOwnRows, kOwnBlocks = Share::kOwnBlocks;
  const Share& share;
  float* gSums;  // of the tile of rows

  // Starts the copy of what the thread will combine itself.
  __device__ void load_async(u32 sO) const {
#pragma unroll
    for (i32 slice = 0; slice < kConfig.block_m / kConfig.slice_rows; ++slice) {
#pragma unroll
      for (i32 r = 0; r < kOwnRows; ++r) {
#pragma unroll
        for (i32 c = 0; c < kConfig.head_dim / 8; c += Share::kBlocks) {
#pragma unroll
          for (i32 block = 0; block < kOwnBlocks; ++block) {
            const i32 place = share.place + Share::place_of(slice * Share::kRows + r, c + block);
            ptx::cp_async_cg_16(sO + 4 * place, gSums + place, 16);
          }
        }
      }
    }
  }

  // Loads that of a slice's rows, from `row` of the tile on.
  __device__ void load(i32 row, float4 (&rOld)[kOwnRows][kConfig.chunks() * kOwnBlocks]) const {
#pragma unroll
    for (i32 r = 0; r < kOwnRows; ++r) {
#pragma unroll
      for (i32 c = 0; c < kConfig.chunks() * kOwnBlocks; ++c) {
        const i32 block = c / kOwnBlocks * Share::kBlocks + c % kOwnBlocks;
        rOld[r][c] = *reinterpret_cast<const float4*>(gSums + share.place +
                                                      Share::place_of(row / 16 + r, block));
      }
    }
  }
};

}  // namespace attnlab::v1
