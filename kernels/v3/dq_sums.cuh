// Adds to the sums of dQ of v3's backward in device memory, to which every tile of keys adds.
//
// They lie as wgmma leaves them, four values of a lane side by side. So a warp's part of a tile is
// 4 KiB in a line, which it stores to shared memory without bank conflicts, and one bulk copy adds
// it; or its lanes add four values each, 512 bytes in a line. finish_rows (backward_rows.cuh) is
// the only other one who must know.
#pragma once

#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/red.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

constexpr i32 kDqWarpBytes = 16 * 64 * 4;

// DqPart is a warp's part of a tile of dQ: 16 rows of it and 64 columns. Consumers, of four warps
// each, divide the rows where there are 64 for each, else the columns. Where they divide the
// columns of dK and dV, parts are transposed, 16 columns by 64 rows, and a warp has one or two.
template <BackwardConfig kConfig>
struct DqPart {
  static constexpr i32 kCount = kConfig.dq_bytes() / (4 * kConfig.consumers() * kDqWarpBytes);
  static_assert(kConfig.dq_bytes() == 4 * kConfig.consumers() * kCount * kDqWarpBytes,
                "the consumers' warps have 16 rows and 64 columns each, or columns and rows");
  static constexpr bool kIsTransposed = kConfig.shares_columns();
  static constexpr bool kDividesRows = kConfig.block_m == 64 * kConfig.consumers();
  using Accumulator = device::Accumulator<1, 8>;

  // Returns the number of a warp's part `i` in the tile; `warp` counts those of all consumers.
  static __device__ i32 number(i32 warp, i32 i) { return 4 * (kCount * (warp / 4) + i) + warp % 4; }
  // Return where a part that is not transposed begins in the tile.
  static __device__ i32 row(i32 warp) { return 16 * (kDividesRows ? warp : warp % 4); }
  static __device__ i32 column(i32 warp) { return kDividesRows ? 0 : warp / 4 * 64; }
  // Returns where an element of the tile lies among its sums.
  static __device__ i32 place(i32 row, i32 column) {
    if constexpr (kIsTransposed) {
      return place_in(column / 16, column % 16, row);
    } else {
      return place_in(kDividesRows ? row / 16 : row / 16 + column / 64 * 4, row % 16, column % 64);
    }
  }

 private:
  // Returns the same for row m and column n of a part's product.
  static __device__ i32 place_in(i32 part, i32 m, i32 n) {
    const i32 lane = m % 8 * 4 + n % 8 / 2;
    return ((part * 8 + n / 8) * device::kWarp + lane) * 4 + m / 8 * 2 + n % 2;
  }
};

// Returns the sums of a tile of rows.
template <BackwardConfig kConfig>
__device__ float* dq_sums_of(const BackwardWorkspace& workspace, i64 tile) {
  return workspace.dq_sums + tile * (kConfig.block_m * kConfig.head_dim);
}

// Stores a warp's part to its own 4 KiB at `staged` in shared memory. A fence of the async proxy
// must follow before a bulk copy reads it.
__device__ inline void stage_dq(const device::Accumulator<1, 8>& rDQ, u8* staged, i32 lane) {
#pragma unroll
  for (i32 c = 0; c < 8; ++c) {
    const float(&dq)[4] = rDQ.at[0][c];
    reinterpret_cast<float4*>(staged)[c * device::kWarp + lane] = {dq[0], dq[1], dq[2], dq[3]};
  }
}

// Adds what a warp has staged at `address` to sums of a tile, by a bulk copy that it does not wait
// for.
__device__ inline void add_staged_dq(u32 address, float* gSums) {
  ptx::fence_proxy_async_shared();
  __syncwarp();
  if (device::opaque(device::own_lane()) == 0) {
    ptx::cp_reduce_async_bulk_add_f32(gSums, address, kDqWarpBytes);
    ptx::cp_async_bulk_commit_group();
  }
}

// Waits, as a warp, until what it has staged before has been read.
__device__ inline void wait_until_staged_dq_is_read() {
  if (device::opaque(device::own_lane()) == 0) ptx::cp_async_bulk_wait_group_read<0>();
  __syncwarp();
}

// Adds a warp's part without shared memory: each lane adds its values.
__device__ inline void add_dq_of_lanes(const device::Accumulator<1, 8>& rDQ, float* gSums) {
  float* const gOwn = gSums + 4 * device::opaque(device::own_lane());
#pragma unroll
  for (i32 c = 0; c < 8; ++c) ptx::red_add_v4_f32(gOwn + c * 4 * device::kWarp, rDQ.at[0][c]);
}

}  // namespace attnlab::v3
