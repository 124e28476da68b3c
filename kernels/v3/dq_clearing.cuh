// Clears the sums of dQ of v3's backward, unless parts are added in a fixed order.
//
// They are as large as Q in fp32, and a kernel that clears all of them first pays for each byte
// twice: it is written to DRAM and read again. So prepare_rows clears only those that the first
// blocks add to. Those of a later group (the query heads that share a K/V head) are cleared by
// warps of the producer's warpgroup that have nothing else to do, in the block whose item lies
// `ahead` items before the group's first one. A word for each group counts the warps that have done
// so, and consumers wait for it. Blocks begin in the order of their numbers, so a block that waits
// does so for one that has begun.
#pragma once

#include "kernels/device/warp_uniform.cuh"
#include "kernels/ptx/acquire_release.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/dq_sums.cuh"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

constexpr i32 kClearingWarps = 3;  // 1 to 3 of the producer's warpgroup; warp 0 loads

// Returns how many warps have cleared the sums of a group, (batch, K/V head).
__device__ inline i32& cleared_by(const BackwardSizes& sizes, i64 group) {
  return cleared_of(sizes.workspace, work_items(sizes.rows))[group];
}

// Returns whether prepare_rows clears the sums of a tile of rows. It says so for the group, as the
// block of the group's first tile.
__device__ inline bool clears_first(const BackwardSizes& sizes, const WorkItem& item) {
  const Shape& shape = sizes.params.shape;
  const i64 group = item.batch * shape.num_heads_kv + item.head / shape.sharing();
  const bool clears = first_item(sizes.keys, group) < sizes.workspace.ahead;
  if (threadIdx.x == 0 && item.block == 0 && item.head % shape.sharing() == 0) {
    cleared_by(sizes, group) = clears ? kClearingWarps : 0;
  }
  return clears;
}

// Clears the sums of the group, if any, that begins `ahead` items after a block's own. Threads of
// other warps return at once.
template <BackwardConfig kConfig>
__device__ void clear_ahead(const BackwardSizes& sizes, i64 own_item) {
  constexpr i32 kThreads = kClearingWarps * device::kWarp;
  const i32 thread = static_cast<i32>(threadIdx.x) - device::kWarp;
  if (thread < 0 || thread >= kThreads) return;
  const i64 index = own_item + sizes.workspace.ahead;
  if (index >= work_items(sizes.keys)) return;
  const Shape& shape = sizes.params.shape;
  const WorkItem item = work_item(sizes.keys, index);
  const i64 group = item.batch * shape.num_heads_kv + item.head;
  if (index != first_item(sizes.keys, group)) return;
  const i32* const gStarts = sizes.params.cu_seqlens_q;
  const i32 rows = gStarts == nullptr ? static_cast<i32>(shape.seqlen_q)
                                      : gStarts[item.batch + 1] - gStarts[item.batch];
  const i32 count = ceil_div(rows, kConfig.block_m) * (kConfig.block_m * kConfig.head_dim / 4);
  i64 tile = group * shape.sharing() * sizes.rows.blocks;
  for (i32 head = 0; head < static_cast<i32>(shape.sharing()); ++head) {
    auto* const gSums = reinterpret_cast<float4*>(dq_sums_of<kConfig>(sizes.workspace, tile));
#pragma unroll 1  // the producer has few registers
    for (i32 i = thread; i < count; i += kThreads) gSums[i] = {0.0f, 0.0f, 0.0f, 0.0f};
    tile += sizes.rows.blocks;
  }
  __threadfence();
  __syncwarp();
  if (thread % device::kWarp == 0) atomicAdd(&cleared_by(sizes, group), 1);
}

// Waits, as a consumer's warp, until the sums of a block's group are clear. Its lane 0, which
// starts bulk copies, sees them so.
__device__ inline void wait_for_clear_sums(const BackwardSizes& sizes, i64 own_item) {
  if (device::opaque(device::own_lane()) == 0) {
    const i64 group = slice_place(sizes.keys, static_cast<u32>(own_item)).slice;
    while (ptx::ld_acquire_gpu_global(&cleared_by(sizes, group)) != kClearingWarps) {
    }
    ptx::fence_proxy_async_global();
  }
  __syncwarp();
}

}  // namespace attnlab::v3
