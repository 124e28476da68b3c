// Implements v3's consumers of the backward at head dims above 128, where registers do not hold dK,
// dV of 64 keys beside S and dP: each has one or two slabs of 64 columns of dK, dV of all keys.
//
//   product         of a consumer      A                             B
//   --------------  -----------------  ----------------------------  -----------------------------
//   S = Q K^T       its share of keys  Q, K-major                    K, K-major
//   dP = dO V^T     its share of keys  dO, K-major                   V, K-major
//   dV^T += dO^T P  its slabs          dO, MN-major                  P^T, K-major
//   dK^T += Q^T dS  its slabs          Q, MN-major                   dS^T, K-major
//   dQ^T = K^T dS^T its slabs          K, MN-major                   dS^T, MN-major
//
// Both P and dS must pass through shared memory, where all consumers' keys of them meet. They are
// stored transposed, keys x rows: 64 rows are one slab, of which the swizzle of 128 bytes serves
// all three products. dQ goes from registers to its sums, since no memory is left to stage it: of
// two slabs one after the other, through the same registers.
#pragma once

#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax_backward.cuh"
#include "kernels/v3/backward_consumer.cuh"
#include "kernels/v3/backward_turns.cuh"
#include "kernels/v3/band_mask.cuh"
#include "kernels/v3/dq_sums.cuh"

namespace attnlab::v3 {

// Returns what a lane's rows see under a block pattern, four bits for each 8 keys. Callers ask
// before products start, since it branches, and while their sums take no registers yet.
template <i32 kKeys>
__device__ u32 visible_bits_of_columns(const Mask& mask, i64 row, i64 key) {
  u32 bits = ~0u;
  device::for_hidden<1, kKeys>(mask, row, key,
                               [&](i32, i32 c, i32 i) { bits &= ~(1u << (4 * c + i)); });
  return bits;
}

// Turns S in rP into P and dP in rDS into dS, for a warp's 16 rows from `row` of the tile on and
// its consumer's keys from `key` on. dP may still be in flight.
template <BackwardConfig kConfig, bool kIsMasked, i32 kKeys>
__device__ void backward_of_softmax(const BackwardSizes& sizes,
                                    const BackwardMemory<kConfig>& memory,
                                    const device::BackwardStep& step,
                                    const BackwardStages<kConfig>& stages, i32 row, i32 key,
                                    u32 visible, const float (&log2_lse)[2],
                                    const float (&deltas)[2], device::Accumulator<1, kKeys>& rP,
                                    device::Accumulator<1, kKeys>& rDS) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  const Params& params = sizes.params;
  const BackwardWorkTile& sWorkTile = memory.work_tile();
#pragma unroll
  for (i32 c = 0; c < kKeys; ++c) {  // P = exp(S - lse)
    recompute_p_of_lse(rP, c, params.shape.softmax_scale_log2,
                       [&](i32 i) { return log2_lse[i / 2]; });
  }
  ptx::wgmma_wait_group<0>();
  fence_operand(rDS);
  const i32 first_row = step.m_block * kConfig.block_m + row;
  if constexpr (kIsMasked && !kConfig.pattern) {
    apply_band_mask(sWorkTile, first_row, key, rP);
  }
  if constexpr (kIsMasked && kConfig.pattern) {
#pragma unroll
    for (i32 c = 0; c < kKeys; ++c) {
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        rP.at[0][c][i] = (visible >> (4 * c + i) & 1) != 0 ? rP.at[0][c][i] : 0.0f;
      }
    }
  }
  u32 kept = 0;
  if constexpr (kConfig.dropout) {
    kept = kept_bits_of_columns<kKeys>(params.dropout, sWorkTile.first_head + step.head, first_row,
                                       sWorkTile.keys.begin + key);
  }
  softmax_backward_of_rows<kConfig.dropout>(rP, rDS, deltas, kept, params.dropout.keep_scale);
}

// Holds what a consumer adds up, transposed: 64 columns x keys of each slab.
template <BackwardConfig kConfig>
using SlabSums = device::Accumulator<1, kConfig.block_n / 8>[kConfig.own_slabs()];

// Calls use(slab) for each slab, unrolled, since slabs index registers.
template <i32 kSlabs, class Use>
__device__ __forceinline__ void for_slabs(const Use& use) {
#pragma unroll
  for (i32 slab = 0; slab < kSlabs; ++slab) use(slab);
}

// Works on one tile of rows, as warp `warp` of all consumers. It is long because products are in
// flight from one part to the next. A step
//   1. waits for Q, starts S,                       5. starts dV and the first slab's dQ,
//   2. waits for dO, starts dP,                     6. waits for dV, releases dO,
//   3. waits for S and dP, makes P and dS of them,  7. of each slab starts dK behind dQ, waits for
//   4. stores both, meets the other consumers,         dQ, and adds it beside dK,
//                                                   8. waits for dK, releases Q.
// dO may have one stage only. So it is released early and waited for late, or the next S and dP
// would wait for its copy. One meeting a step is enough, as in work_on_rows().
template <class T, BackwardConfig kConfig, bool kIsMasked>
__device__ __forceinline__ void work_on_rows_by_columns(const BackwardSizes& sizes,
                                                        const BackwardMemory<kConfig>& memory,
                                                        const device::BackwardStep& step, i32 tile,
                                                        const BackwardStages<kConfig>& stages,
                                                        i32 warp, i32 lane, SlabSums<kConfig>& rDK,
                                                        SlabSums<kConfig>& rDV) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kSlabs = kConfig.own_slabs();
  constexpr i32 kOwnKeys = kConfig.block_n / kConfig.consumers();  // of S and dP
  constexpr i32 kBlocks = kOwnKeys / 8;
  using Part = DqPart<kConfig>;
  using Scores = Accumulator<1, kBlocks>;
  constexpr i32 kRows = kConfig.block_m / 16;      // steps of 16 rows: k of dV and dK
  constexpr i32 kKeys = kConfig.block_n / 16;      // steps of 16 keys: k of dQ
  constexpr i32 kColumns = kConfig.head_dim / 16;  // steps of 16 columns: k of S and dP
  const Params& params = sizes.params;
  const BackwardWorkTile& sWorkTile = memory.work_tile();
  const i32 own_row = 16 * (warp % 4), own_key = kOwnKeys * (warp / 4);
  const i32 own_slab = kSlabs * (warp / 4);
  const auto fence_sums = [&](SlabSums<kConfig>& sums) {
    for_slabs<kSlabs>([&](i32 slab) { fence_operand(sums[slab]); });
  };
  const auto q_slab = [&](u32 tile, i32 slab) {  // of Q or dO
    return MnMajor<kTiles.q>(tile + static_cast<u32>((own_slab + slab) * kTiles.q.slab_bytes()));
  };

  const i32 lane_row = own_row + (lane >> 2);  // and 8 rows on
  const auto q_rows = KMajor<kTiles.q>(memory.at(kTiles.q_of(stages.q.stage)), 0).ready();
  const auto k_rows = KMajor<kTiles.kv>(memory.at(kTiles.k()), own_key).ready();
  memory.q_ring.wait_full(stages.q);
  if constexpr (kIsMasked) {
    if (params.cu_seqlens_q != nullptr) {
      memory.dout_ring.wait_full(stages.dout);
      clear_rows_past_end(memory, step.m_block, stages);
    }
  }
  const u32 sQ = memory.at(kTiles.q_of(stages.q.stage));
  const u32 sDO = memory.at(kTiles.dout_of(stages.dout.stage));
  const u32 sP = memory.at(kTiles.p_of(stages.q.stage));
  const u32 sDS = memory.at(kTiles.ds_of(stages.q.stage));
  {
    u32 visible = ~0u;
    if constexpr (kIsMasked && kConfig.pattern) {
      visible = visible_bits_of_columns<kBlocks>(
          sWorkTile.mask, step.m_block * kConfig.block_m + own_row, sWorkTile.keys.begin + own_key);
    }
    const float* const sLse = memory.statistics(kTiles.lse_of(stages.q.stage)) + lane_row;
    const float* const sDelta = memory.statistics(kTiles.delta_of(stages.dout.stage)) + lane_row;
    const float log2_lse[2] = {sLse[0], sLse[8]};
    Scores rP, rDS;
    ptx::wgmma_fence();
    start_product<T, kColumns>(rP, q_rows, k_rows);  // S = Q K^T
    memory.dout_ring.wait_full(stages.dout);
    const float deltas[2] = {sDelta[0], sDelta[8]};
    ptx::wgmma_fence();
    start_product<T, kColumns>(rDS, KMajor<kTiles.q>(sDO, 0),
                               KMajor<kTiles.kv>(memory.at(kTiles.v()), own_key));  // dP = dO V^T
    ptx::wgmma_wait_group<1>();
    fence_operand(rP);
    backward_of_softmax<kConfig, kIsMasked>(sizes, memory, step, stages, own_row, own_key, visible,
                                            log2_lse, deltas, rP, rDS);
    store_transposed_of_warp<T, kTiles.p>(rP, sP, own_key, own_row);
    store_transposed_of_warp<T, kTiles.ds>(rDS, sDS, own_key, own_row);
  }
  ptx::fence_proxy_async_shared();
  sync_consumers<kConfig>();

  typename Part::Accumulator rDQ;
  float* const gSums = dq_sums_of<kConfig>(sizes.workspace, tile);
  const auto start_dq = [&](i32 slab) {  // dQ^T = K^T dS^T
    const i32 offset = kTiles.k() + (own_slab + slab) * kTiles.kv.slab_bytes();
    ptx::wgmma_fence();
    start_product<T, kKeys>(rDQ, MnMajor<kTiles.kv>(memory.at(offset)), MnMajor<kTiles.ds>(sDS));
  };
  const auto add_dq = [&](i32 slab) {
    fence_operand(rDQ);
    if constexpr (kConfig.deterministic) {
      if (slab == 0) wait_to_put_dq(memory, stages);
    }
    add_dq_of_lanes(rDQ, gSums + Part::number(warp, slab) * (kDqWarpBytes / 4));
    if constexpr (kConfig.deterministic) {
      if (slab == kSlabs - 1) tell_dq_is_put(memory, stages);
    }
  };
  fence_sums(rDV);
  ptx::wgmma_fence();
  for_slabs<kSlabs>([&](i32 slab) {  // dV^T += dO^T P
    start_product<T, kRows>(rDV[slab], q_slab(sDO, slab), KMajor<kTiles.p>(sP, 0), ScaleD::one);
  });
  fence_sums(rDK);
  for_slabs<kSlabs>([&](i32 slab) {
    start_dq(slab);
    if (slab == 0) {
      ptx::wgmma_wait_group<1>();
      fence_sums(rDV);
      release_by_warp(memory.dout_ring, stages.dout);
    }
    ptx::wgmma_fence();
    start_product<T, kRows>(rDK[slab], q_slab(sQ, slab), KMajor<kTiles.ds>(sDS, 0),
                            ScaleD::one);  // dK^T += Q^T dS
    ptx::wgmma_wait_group<1>();
    add_dq(slab);
  });
  ptx::wgmma_wait_group<0>();
  fence_sums(rDK);
  release_by_warp(memory.q_ring, stages.q);
}

// Runs a consumer's work in one warpgroup.
template <class T, BackwardConfig kConfig>
__device__ void consume_columns(const BackwardSizes& sizes, const BackwardPointers<T>& pointers,
                                const BackwardMemory<kConfig>& memory) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kSlabs = kConfig.own_slabs();
  const Params& params = sizes.params;
  const i32 warp = warp_uniform(static_cast<i32>(threadIdx.x) / kWarp) - 4;  // of all consumers
  const i32 own_row = 16 * (warp % 4), own_slab = kSlabs * (warp / 4);
  const i32 lane = kept_lane();

  SlabSums<kConfig> rDK, rDV;
  for_slabs<kSlabs>([&](i32 slab) {
    rDK[slab].clear();
    rDV[slab].clear();
  });
  const auto work_on = [&](auto is_masked, const BackwardStep& step, i32 tile,
                           const BackwardStages<kConfig>& stages) {
    work_on_rows_by_columns<T, kConfig, is_masked.value>(sizes, memory, step, tile, stages, warp,
                                                         lane, rDK, rDV);
  };
  if constexpr (!kConfig.deterministic) wait_for_clear_sums(sizes, memory.index());
  for_steps<kConfig>(sizes, memory, work_on);

  sync_consumers<kConfig>();  // nobody reads K and V any more
  for_slabs<kSlabs>([&](i32 slab) {
    const i32 column = 64 * (own_slab + slab) + own_row;
    rDV[slab].scale(params.dropout.keep_scale);
    rDK[slab].scale(params.shape.softmax_scale);
    store_transposed_of_warp<T, kTiles.kv>(rDV[slab], memory.at(kTiles.v()), 0, column);
    store_transposed_of_warp<T, kTiles.kv>(rDK[slab], memory.at(kTiles.k()), 0, column);
  });
  sync_consumers<kConfig>();
  constexpr i32 kCopied = kConfig.block_n / (4 * kConfig.consumers());  // keys, by a warp
  copy_keys<kCopied>(params.shape, memory, kTiles.v(), kCopied * warp, pointers.gDV);
  copy_keys<kCopied>(params.shape, memory, kTiles.k(), kCopied * warp, pointers.gDK);
  ATTNLAB_NOTE(BackwardTimeline(memory).store(opaque(own_lane()) == 0);)
}

}  // namespace attnlab::v3
