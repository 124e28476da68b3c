// Holds the text of the loop that v3's backward is measured against: the five products with what a
// step needs beside them, and nothing else. A block keeps its K and V and walks over the same rows
// again and again, which come from the L2; there are no masks, no work items and no change of keys,
// and lse and delta are loaded once. Source of the order of a step: Shah et al., FlashAttention-3
// (2024), Algorithm 3, and their code. A unit defines kConfig, a v3::BackwardConfig, and goes on
// with kRoofText, one of the two texts of a step, and kRoofKernel.
#pragma once

namespace attnlab {

inline constexpr const char* kRoofText = R"(
#include "kernels/v3/backward.cuh"
using namespace attnlab;
using namespace attnlab::device;
using v3::BackwardMaps, v3::BackwardSizes;
constexpr v3::BackwardTiles kTiles = v3::backward_tiles(kConfig);
constexpr i32 kRows = kConfig.block_m, kKeys = kConfig.block_n, kThreads = kConfig.threads();
using T = F16;
using Memory = v3::BackwardMemory<kConfig>;
using Stages = v3::BackwardStages<kConfig>;

// Calls use(tile, stages) for each step.
template <class Use>
__device__ void for_steps(const BackwardSizes& sizes, i32 steps, const PipelineState& start,
                          const Use& use) {
  Stages stages(start);
  const i32 tiles = static_cast<i32>(sizes.rows.blocks);
#pragma unroll 1
  for (i32 step = 0, tile = 0; step < steps; ++step, stages.advance()) {
    use(tile, stages);
    tile = tile + 1 == tiles ? 0 : tile + 1;
  }
}

// One thread runs this. With K and V come all stages of lse and delta, which lie side by side.
__device__ void load(const BackwardSizes& sizes, i32 steps, const BackwardMaps& maps,
                     const Memory& memory) {
  const auto copy = [&](const SlabTile& tile, const TensorMap& map, i32 to, i32 row, u32 barrier) {
    for (i32 slab = 0; slab < tile.slabs(); ++slab) {
      ptx::cp_async_bulk_tensor_4d(memory.at(to + slab * tile.slab_bytes()), map,
                                   slab * SlabTile::kColumns, row, 0, 0, barrier);
    }
  };
  constexpr i32 kBytes = kTiles.delta_of(kConfig.dout_stages()) - kTiles.lse_of(0);
  const u32 kv = memory.kv_ring.full(0);
  ptx::mbarrier_arrive_expect_tx(kv, 2 * kTiles.kv.bytes() + kBytes);
  copy(kTiles.kv, maps.k, kTiles.k(), blockIdx.x * kKeys, kv);
  copy(kTiles.kv, maps.v, kTiles.v(), blockIdx.x * kKeys, kv);
  ptx::cp_async_bulk(memory.at(kTiles.lse_of(0)), sizes.workspace.statistics, kBytes, kv);
  for_steps(sizes, steps, producer_start(), [&](i32 tile, const Stages& stages) {
    memory.q_ring.wait_empty(stages.q);
    const u32 q = memory.q_ring.full(stages.q.stage);
    ptx::mbarrier_arrive_expect_tx(q, kTiles.q.bytes());
    copy(kTiles.q, maps.q, kTiles.q_of(stages.q.stage), tile * kRows, q);
    memory.dout_ring.wait_empty(stages.dout);
    const u32 dout = memory.dout_ring.full(stages.dout.stage);
    ptx::mbarrier_arrive_expect_tx(dout, kTiles.q.bytes());
    copy(kTiles.q, maps.dout, kTiles.dout_of(stages.dout.stage), tile * kRows, dout);
  });
}
)";

// It has Sums, dK or dV of a consumer, and two functions: work_on() is a step, write() adds dQ if
// consumers do not. At head dims 64 and 128, where a consumer has 64 keys, v3's step is no longer
// FlashAttention-3's: that takes dQ transposed from tiles of 80 rows, reads lse and delta where
// they are used, and lets a warp of the producer's warpgroup add dQ. Each consumer stages its half
// of dQ as registers have it, four values of a thread side by side.
inline constexpr const char* kRoofTextOfKeys = R"(
using Sums = Accumulator<1, kConfig.head_dim / 8>[1];

// Staged is where dQ waits to be added. Named barriers of each consumer hand it over and back.
struct Staged {
  static constexpr i32 kBytes = kConfig.dq_bytes() / 2;  // of a consumer
  static constexpr i32 kThreads = kWarpgroup + kWarp;
  static __device__ i32 full(i32 consumer) { return 2 + consumer; }
  static __device__ i32 empty(i32 consumer) { return 4 + consumer; }
};

// A warp runs this.
__device__ void write(const BackwardSizes& sizes, i32 steps, const Memory& memory) {
  const bool is_first = threadIdx.x % kWarp == 0;
  for_steps(sizes, steps, producer_start(), [&](i32 tile, const Stages&) {
    if (is_first) ptx::cp_async_bulk_wait_group_read<1>();  // all but the second consumer's
    __syncwarp();
    ptx::barrier_arrive(Staged::empty(0), Staged::kThreads);
    if (is_first) ptx::cp_async_bulk_wait_group_read<0>();
    __syncwarp();
    ptx::barrier_arrive(Staged::empty(1), Staged::kThreads);
    for (i32 consumer = 0; consumer < 2; ++consumer) {
      ptx::barrier_sync(Staged::full(consumer), Staged::kThreads);
      if (!is_first) continue;
      ptx::cp_reduce_async_bulk_add_f32(
          v3::dq_sums_of<kConfig>(sizes.workspace, tile) + consumer * (Staged::kBytes / 4),
          memory.at(kTiles.dq() + consumer * Staged::kBytes), Staged::kBytes);
      ptx::cp_async_bulk_commit_group();
    }
  });
  if (is_first) ptx::cp_async_bulk_wait_group<0>();  // shared memory ends with the block
}

__device__ __forceinline__ void work_on(const BackwardSizes& sizes, const Memory& memory, i32,
                                        const Stages& stages, i32 warp, i32 lane, Sums& dk,
                                        Sums& dv) {
  constexpr i32 kRowSteps = kRows / 16, kKeySteps = kKeys / 16;  // of k
  constexpr i32 kColumnSteps = kConfig.head_dim / 16;
  constexpr bool kIsTransposed = kRows % 64 != 0;  // dQ, of which each has 64 columns then
  auto &rDK = dk[0], &rDV = dv[0];
  const i32 consumer = warp >> 2;
  const u32 sQ = memory.at(kTiles.q_of(stages.q.stage));
  const u32 sDO = memory.at(kTiles.dout_of(stages.dout.stage));
  const u32 sDS = memory.at(kTiles.ds_of(stages.q.stage));
  const float2* const sLse = memory.pairs(kTiles.lse_of(0)) + (lane & 3);  // of rows 8 c + 2 t
  const float2* const sDelta = memory.pairs(kTiles.delta_of(0)) + (lane & 3);
  Accumulator<1, 2 * kRowSteps> rP, rDS;
  memory.q_ring.wait_full(stages.q);
  ptx::wgmma_fence();
  start_product<T, kColumnSteps>(rP, KMajor<kTiles.kv>(memory.at(kTiles.k()), 64 * consumer),
                                 KMajor<kTiles.q>(sQ, 0));  // S^T = K Q^T
  memory.dout_ring.wait_full(stages.dout);
  ptx::wgmma_fence();
  start_product<T, kColumnSteps>(rDS, KMajor<kTiles.kv>(memory.at(kTiles.v()), 64 * consumer),
                                 KMajor<kTiles.q>(sDO, 0));  // dP^T = V dO^T
  ptx::wgmma_wait_group<1>();
  fence_operand(rP);
#pragma unroll
  for (i32 c = 0; c < 2 * kRowSteps; ++c) {  // P^T = exp(S^T - lse)
    const float2 lse = sLse[4 * c];
    recompute_p_of_lse(rP, c, sizes.params.shape.softmax_scale_log2,
                       [&](i32 i) { return i % 2 == 0 ? lse.x : lse.y; });
  }
  ptx::wgmma_wait_group<0>();
  fence_operand(rDS);
#pragma unroll
  for (i32 c = 0; c < kRowSteps; ++c) {  // dS^T = P^T (dP^T - delta)
    const float2 deltas[2] = {sDelta[8 * c], sDelta[8 * c + 4]};
    softmax_backward<false>(rP, rDS, 0, c, deltas, 0xFF, 1.0f);
  }
  FragmentsA<kRowSteps> rPRounded, rDSRounded;
  round_to<T>(rPRounded, rP);
  round_to<T>(rDSRounded, rDS);
  // One address and constants: store_transposed_of_warp() takes more, and 80 rows spill then.
  const i32 place = kTiles.ds.offset(lane % 8 + lane / 16 * 8, 2 * warp + lane / 8 % 2);
#pragma unroll
  for (i32 k = 0; k < kRowSteps; ++k) {
    ptx::stmatrix_x4_trans(sDS + place + k * 16 * SlabTile::kRowBytes, rDSRounded.pairs[k]);
  }
  fence_operand(rDV);
  fence_operand(rPRounded);
  ptx::wgmma_fence();
  start_product<T>(rDV, rPRounded, MnMajor<kTiles.q>(sDO), ScaleD::one);  // dV += P^T dO
  ptx::fence_proxy_async_shared();
  v3::sync_consumers<kConfig>();
  Accumulator<1, (kIsTransposed ? kRows : 64) / 8> rDQ;
  ptx::wgmma_fence();
  if constexpr (kIsTransposed) {  // dQ^T = K^T dS^T
    const i32 columns = kTiles.k() + consumer * kTiles.kv.slab_bytes();
    start_product<T, kKeySteps>(rDQ, MnMajor<kTiles.kv>(memory.at(columns)),
                                KMajor<kTiles.ds>(sDS, 0));
  } else {  // dQ = dS K, of 64 rows
    start_product<T, kKeySteps>(rDQ, KMajor<kTiles.ds>(sDS, 64 * consumer),
                                MnMajor<kTiles.kv>(memory.at(kTiles.k())));
  }
  ptx::wgmma_wait_group<1>();
  fence_operand(rDV);
  fence_operand(rPRounded);
  v3::release_by_warp(memory.dout_ring, stages.dout);
  fence_operand(rDK);
  fence_operand(rDSRounded);
  ptx::wgmma_fence();
  start_product<T>(rDK, rDSRounded, MnMajor<kTiles.q>(sQ), ScaleD::one);  // dK += dS^T Q
  ptx::wgmma_wait_group<1>();
  fence_operand(rDQ);
  ptx::barrier_sync(Staged::empty(consumer), Staged::kThreads);
  auto* const sStaged = reinterpret_cast<float4*>(memory.memory + kTiles.dq()) +
                        consumer * (Staged::kBytes / 16) + 32 * (warp & 3) + lane;
#pragma unroll
  for (i32 c = 0; c < Staged::kBytes / 16 / kWarpgroup; ++c) {
    const float(&dq)[4] = rDQ.at[0][c];
    sStaged[c * kWarpgroup] = {dq[0], dq[1], dq[2], dq[3]};
  }
  ptx::fence_proxy_async_shared();
  ptx::barrier_arrive(Staged::full(consumer), Staged::kThreads);
  ptx::wgmma_wait_group<0>();
  fence_operand(rDK);
  fence_operand(rDSRounded);
  v3::release_by_warp(memory.q_ring, stages.q);
}
)";

// At head dim 256, where consumers share columns, the step is v3's own. Order and additions are
// those of FlashAttention-3. That has one stage of P and dS and two barriers a step; two stages and
// one barrier can only make the loop faster.
inline constexpr const char* kRoofTextOfColumns = R"(
using Sums = v3::SlabSums<kConfig>;
__device__ void write(const BackwardSizes&, i32, const Memory&) {}
__device__ __forceinline__ void work_on(const BackwardSizes& sizes, const Memory& memory, i32 tile,
                                        const Stages& stages, i32 warp, i32 lane, Sums& rDK,
                                        Sums& rDV) {
  v3::work_on_rows_by_columns<T, kConfig, false>(sizes, memory, BackwardStep{}, tile, stages, warp,
                                                 lane, rDK, rDV);
}
)";

// It stores each block's dV and dK as registers have them: ptxas drops what nobody reads.
inline constexpr const char* kRoofKernel = R"(
__device__ void consume(const BackwardSizes& sizes, i32 steps, const Memory& memory, float4* gTo) {
  constexpr i32 kSlabs = sizeof(Sums) / sizeof(Sums{}[0]);
  constexpr i32 kBlocks = sizeof(Sums) / kSlabs / sizeof(float4);
  const i32 warp = warp_uniform(static_cast<i32>(threadIdx.x) / kWarp) - 4, lane = kept_lane();
  Sums rDV, rDK;
  v3::for_slabs<kSlabs>([&](i32 slab) {
    rDV[slab].clear();
    rDK[slab].clear();
  });
  memory.kv_ring.wait_full(consumer_start());
  for_steps(sizes, steps, consumer_start(), [&](i32 tile, const Stages& stages) {
    work_on(sizes, memory, tile, stages, warp, lane, rDK, rDV);
  });
  gTo += blockIdx.x * (2 * kSlabs * kBlocks * 2 * kWarpgroup) + threadIdx.x - kWarpgroup;
  const auto store = [&](const auto& sums) {
#pragma unroll
    for (i32 c = 0; c < kBlocks; ++c, gTo += 2 * kWarpgroup) {
      const float(&own)[4] = sums.at[0][c];
      *gTo = {own[0], own[1], own[2], own[3]};
    }
  };
  v3::for_slabs<kSlabs>([&](i32 slab) { store(rDV[slab]); });
  v3::for_slabs<kSlabs>([&](i32 slab) { store(rDK[slab]); });
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
backward_roof(const __grid_constant__ BackwardSizes sizes,
              const __grid_constant__ BackwardMaps maps, i32 steps, float4* gSums) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const Memory memory(shared_memory);
  if (threadIdx.x == 0) memory.init_rings();
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<kConfig.producer_registers()>();
    if (threadIdx.x == 0) load(sizes, steps, maps, memory);
    if (warp_uniform(static_cast<i32>(threadIdx.x) / kWarp) == 1) write(sizes, steps, memory);
  } else {
    ptx::setmaxnreg_inc<kConfig.consumer_registers()>();
    consume(sizes, steps, memory, gSums);
  }
}
)";

}  // namespace attnlab
