// Loads the running O of a warp's share of rows: the O of the tiles of keys that have passed, fp32
// in device memory.
#pragma once

#include "kernels/ptx/cp_async.cuh"
#include "kernels/v1/forward_team.cuh"

namespace attnlab::v1 {

// RunningO is the running O of a tile of rows: each step loads it to shared memory or, where that
// has no room (keeps_o), to registers, and stores it back.
template <ForwardConfig kConfig>
struct RunningO {
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
            const i32 offset = share.offset + Share::offset_of(slice * Share::kRows + r, c + block);
            ptx::cp_async_cg_16(sO + 4 * offset, gSums + offset, 16);
          }
        }
      }
    }
  }

  // Loads the running O of a slice's rows, from `row` of the tile on.
  __device__ void load(i32 row,
                       float4 (&rRunningO)[kOwnRows][kConfig.chunks() * kOwnBlocks]) const {
#pragma unroll
    for (i32 r = 0; r < kOwnRows; ++r) {
#pragma unroll
      for (i32 c = 0; c < kConfig.chunks() * kOwnBlocks; ++c) {
        const i32 block = c / kOwnBlocks * Share::kBlocks + c % kOwnBlocks;
        rRunningO[r][c] = *reinterpret_cast<const float4*>(gSums + share.offset +
                                                           Share::offset_of(row / 16 + r, block));
      }
    }
  }
};

}  // namespace attnlab::v1
