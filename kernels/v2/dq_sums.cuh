// Adds to the sums of dQ of v2's backward in device memory, to which every tile of keys adds.
//
// They lie as the tensor cores leave them, four values of a lane side by side: a warp adds 512
// consecutive bytes with one instruction, and finish_rows (backward_rows.cuh), which has the same
// warps, is the only other one who must know.
#pragma once

#include "kernels/device/warp_part.cuh"
#include "kernels/ptx/acquire_release.cuh"
#include "kernels/ptx/red.cuh"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// Returns the sums of tile of rows `tile`, counted over all slices.
template <BackwardConfig kConfig>
__device__ float* dq_sums_of(const BackwardWorkspace& workspace, i64 tile) {
  return workspace.dq_sums + tile * kConfig.block_m * kConfig.head_dim;
}

// Adds a warp's part of dQ to the sums of a tile, in any order.
template <class Part>
__device__ void add_dq(const typename Part::Accumulator& rDQ, float* gSums) {
  device::for_places<Part>(
      rDQ, [&](const float(&sum)[4], i32 place) { ptx::red_add_v4_f32(gSums + place, sum); });
}

// Adds that part in a fixed order. The semaphore is the number of the tile of keys that adds next:
// `own` lets this block add, which then sets it to `next`.
template <class Part>
__device__ void add_dq_in_order(const typename Part::Accumulator& rDQ, float* gSums, i32* semaphore,
                                i32 own, i32 next) {
  if (threadIdx.x == 0) {
    while (ptx::ld_acquire_gpu_global(semaphore) != own) __nanosleep(100);
  }
  __syncthreads();
  device::for_places<Part>(rDQ, [&](const float(&dq)[4], i32 place) {
    auto* const gSum = reinterpret_cast<float4*>(gSums + place);
    float4 sum = __ldcg(gSum);  // the L1 may have what it was before others added
    sum.x += dq[0];
    sum.y += dq[1];
    sum.z += dq[2];
    sum.w += dq[3];
    __stcg(gSum, sum);
  });
  __syncthreads();
  if (threadIdx.x == 0) ptx::st_release_gpu_global(semaphore, next);
}

}  // namespace attnlab::v2
