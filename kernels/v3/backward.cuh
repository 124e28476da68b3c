// Implements v3's backward on a GPU: FlashAttention-3's Algorithm 3 with wgmma and TMA, sm_90a.
//
// As in v2 a thread block owns a tile of keys, keeps dK and dV in registers until they are
// complete, and adds its part of dQ to fp32 sums in device memory. What changes is who works: of
// one warpgroup, the producer, a thread starts bulk copies of K and V, once, and of Q and dO with
// their rows' statistics, through two rings of stages. Two consumers have 64 keys each and all
// products of a step on wgmma, which run beside the threads that start them:
//
//   product         A                                 B
//   --------------  --------------------------------  -----------------------------
//   S^T = K Q^T     K, K-major                        Q, K-major
//   dP^T = V dO^T   V, K-major                        dO, K-major
//   dV += P^T dO    P^T, in registers                 dO, MN-major
//   dK += dS^T Q    dS^T, in registers                Q, MN-major
//   dQ = dS K       dS, in shared memory, K-major     K, MN-major
//
// Scores are transposed, keys x rows, so that P^T and dS^T, rounded, have the layout of fragment A
// and never leave registers. Only dS passes through shared memory, where both consumers' parts of
// it meet for dQ, of which each has half (dq_sums.cuh). A warp adds what it has of dQ by one bulk
// copy, or, deterministic, leaves it to threads that take turns (backward_turns.cuh). At head dims
// above 128 dK and dV of 64 keys leave no registers for S and dP, and consumers share columns of dK
// and dV instead of keys (backward_columns.cuh).
//
// Four kernels: prepare_rows (delta, the first sums of zeros), backward, backward_again, which has
// something to do only where logits are so large that lse, one fp32 number, does not hold them, and
// finish_rows (sums to dQ). Each starts while the one in front still runs, and waits for its end
// before it reads anything that that one writes (griddepcontrol). Source: Shah et al.,
// FlashAttention-3 (2024), Algorithm 3.
#pragma once

#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/v3/backward_again.cuh"
#include "kernels/v3/backward_columns.cuh"
#include "kernels/v3/backward_rows.cuh"

namespace attnlab::v3 {

// Stores a warp's 16 rows of dK or dV, by way of its rows of the tile at `offset`, which nobody
// reads any more.
template <class T, BackwardConfig kConfig>
__device__ void store_keys(const Shape& shape, const BackwardMemory<kConfig>& memory, i32 offset,
                           i32 first_key, const device::Accumulator<1, kConfig.head_dim / 8>& sums,
                           T* gKeys) {
  using namespace device;
  constexpr SlabTile kTile = backward_tiles(kConfig).kv;
  store_accumulator_of_warp<T, kTile>(sums, memory.at(offset), first_key);
  __syncwarp();
  copy_keys<16>(shape, memory, offset, first_key, gKeys);
}

// Works on one tile of rows, number `tile` in the workspace, in the order of FlashAttention-3, as
// warp `warp` of all consumers, whose warpgroup has the tile's keys from `first_key` on, and it
// itself those from `warp_key` on.
// It is long because products are in flight from one part to the next. A step
//   1. waits for Q and dO, starts S^T and dP^T,   5. starts dQ over the other consumer's keys,
//   2. waits for S^T, makes P^T of it,            6. waits for dV, releases dO, starts dK,
//   3. waits for dP^T, makes dS^T, stores it,     7. waits for dQ, adds it to the sums,
//   4. starts dV, and dQ over its own keys,       8. waits for dK, releases Q.
// With tiles of 64 rows the second consumer starts each S^T once the first one has its S^T and
// dP^T, and each waits for the other's dS only before 5: so products of one run beside the softmax
// of the other. With 128 rows, where that was no faster, they meet before dQ in 4. One meeting a
// step is enough: a warp that stores dS two steps later has been at the meeting of the step
// between, to which all come behind their product of this dS.
template <class T, BackwardConfig kConfig, bool kIsMasked>
__device__ __forceinline__ void work_on_rows(const BackwardSizes& sizes,
                                             const BackwardMemory<kConfig>& memory,
                                             const device::BackwardStep& step, i32 tile,
                                             const BackwardStages<kConfig>& stages, i32 warp,
                                             i32 lane, i32 first_key, i32 warp_key,
                                             device::Accumulator<1, kConfig.head_dim / 8>& rDK,
                                             device::Accumulator<1, kConfig.head_dim / 8>& rDV) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  using Part = DqPart<kConfig>;
  using Phase = OutOfPhase<kConfig>;
  constexpr i32 kRows = kConfig.block_m / 16;  // steps of 16 rows: k of dV and dK
  constexpr i32 kConsumerKeys = SlabTile::kColumns;
  constexpr i32 kKeys = kConsumerKeys / 16;        // steps of 16 keys: k of dQ, twice
  constexpr i32 kColumns = kConfig.head_dim / 16;  // steps of 16 columns: k of S and dP
  static_assert(kConfig.block_n == 2 * kConsumerKeys, "each consumer's keys are a slab of dS");
  constexpr bool kLooksUp = kConfig.pattern || kConfig.dropout;
  constexpr i32 kEarly = kConfig.deterministic ? 8 : 2 * kRows;  // pairs of lse loaded before S^T
  const i32 consumer = warp >> 2;  // a signed division would take longer, in front of S^T
  const Params& params = sizes.params;
  const BackwardWorkTile& sWorkTile = memory.work_tile();
  const i32 row = step.m_block * kConfig.block_m;
  const auto k_rows = KMajor<kTiles.kv>(memory.at(kTiles.k()), first_key).ready();
  const auto q_rows = KMajor<kTiles.q>(memory.at(kTiles.q_of(stages.q.stage)), 0).ready();
  wait(memory.q_ring.when_full(stages.q), memory.dout_ring.when_full(stages.dout));
  if constexpr (kIsMasked) {
    if (params.cu_seqlens_q != nullptr) clear_rows_past_end(memory, step.m_block, stages);
  }
  const u32 sQ = memory.at(kTiles.q_of(stages.q.stage));
  const u32 sDO = memory.at(kTiles.dout_of(stages.dout.stage));
  const u32 sDS = memory.at(kTiles.ds_of(stages.q.stage));
  FragmentsA<kRows> rPRounded, rDSRounded;
  if (Phase::kIsOn && consumer == 1) Phase::wait_for_first();
  {
    // A lane has a pair of every eight rows. Beside products whose factors all lie in shared memory
    // loads take long, so as many as there are registers for are loaded before.
    const i32 pair = lane & 3;
    const float2* const sLse = memory.pairs(kTiles.lse_of(stages.q.stage)) + pair;
    const float2* const sDelta = memory.pairs(kTiles.delta_of(stages.dout.stage)) + pair;
    float2 early_lse[kEarly];
#pragma unroll
    for (i32 c = 0; c < kEarly; ++c) early_lse[c] = sLse[4 * c];
    Accumulator<1, 2 * kRows> rP, rDS;
    ptx::wgmma_fence();
    start_product<T, kColumns>(rP, k_rows, q_rows);  // S^T = K Q^T
    start_product<T, kColumns>(rDS, KMajor<kTiles.kv>(memory.at(kTiles.v()), first_key),
                               KMajor<kTiles.q>(sDO, 0));  // dP^T = V dO^T
    ptx::wgmma_wait_group<1>();
    fence_operand(rP);
#pragma unroll
    for (i32 c = 0; c < 2 * kRows; ++c) {  // P^T = exp(S^T - lse)
      const float2 lse = c < kEarly ? early_lse[c] : sLse[4 * c];
      recompute_p_of_lse(rP, c, params.shape.softmax_scale_log2,
                         [&](i32 i) { return i % 2 == 0 ? lse.x : lse.y; });
    }
    ptx::wgmma_wait_group<0>();
    fence_operand(rDS);
    if (Phase::kIsOn && consumer == 0) Phase::arrive_as_first();
    if constexpr (kIsMasked && !kLooksUp) {
      apply_transposed_band_mask(sWorkTile, warp_key, row, rP);
    }
    if constexpr (kIsMasked && kLooksUp) {  // it branches, so no product may run
      for_hidden_transposed<1, 2 * kRows>(sWorkTile.mask, row, sWorkTile.keys.begin + warp_key,
                                          [&](i32 r, i32 c, i32 i) { rP.at[r][c][i] = 0.0f; });
    }
#pragma unroll
    for (i32 c = 0; c < kRows; ++c) {  // dS^T = P^T (Z dP^T - delta)
      const float2 deltas[2] = {sDelta[8 * c], sDelta[8 * c + 4]};
      u32 kept = 0xFF;
      if constexpr (kConfig.dropout) {
        kept = kept_bits_transposed(params.dropout, sWorkTile.first_head + step.head, row + 16 * c,
                                    sWorkTile.keys.begin + warp_key);
      }
      softmax_backward<kConfig.dropout>(rP, rDS, 0, c, deltas, kept, params.dropout.keep_scale);
    }
    round_to<T>(rPRounded, rP);
    round_to<T>(rDSRounded, rDS);
  }
  store_transposed_of_warp<kTiles.ds>(rDSRounded, sDS, warp_key, lane);

  fence_operand(rDV);
  fence_operand(rPRounded);
  ptx::wgmma_fence();
  start_product<T>(rDV, rPRounded, MnMajor<kTiles.q>(sDO), ScaleD::one);  // dV += P^T dO
  ptx::fence_proxy_async_shared();
  if constexpr (Phase::kIsOn) {
    Phase::arrive_with_ds(consumer, stages.q.stage);
    Phase::sync_own(consumer);
  } else {
    sync_consumers<kConfig>();
  }
  typename Part::Accumulator rDQ;
  const auto start_dq = [&](i32 of_consumer, ScaleD scale_d) {  // dQ = dS K over a consumer's keys
    const i32 keys = kTiles.k() + Part::column(warp) / SlabTile::kColumns * kTiles.kv.slab_bytes() +
                     kConsumerKeys * of_consumer * SlabTile::kRowBytes;
    start_product<T, kKeys>(
        rDQ,
        KMajor<kTiles.ds>(sDS + static_cast<u32>(of_consumer * kTiles.ds.slab_bytes()),
                          Part::row(4 * consumer)),
        MnMajor<kTiles.kv>(memory.at(keys)), scale_d);
  };
  ptx::wgmma_fence();
  start_dq(consumer, ScaleD::zero);
  if constexpr (Phase::kIsOn) Phase::wait_for_ds(1 - consumer, stages.q.stage);
  start_dq(1 - consumer, ScaleD::one);
  ptx::wgmma_wait_group<2>();
  fence_operand(rDV);
  fence_operand(rPRounded);
  release_by_warp(memory.dout_ring, stages.dout);
  fence_operand(rDK);
  fence_operand(rDSRounded);
  ptx::wgmma_fence();
  start_product<T>(rDK, rDSRounded, MnMajor<kTiles.q>(sQ), ScaleD::one);  // dK += dS^T Q
  ptx::wgmma_wait_group<1>();
  fence_operand(rDQ);
  const i32 own = kTiles.dq() + warp * kDqWarpBytes;
  const auto add_staged = [&] {
    add_staged_dq(memory.at(own),
                  dq_sums_of<kConfig>(sizes.workspace, tile) + warp * (kDqWarpBytes / 4));
  };
  // The fence of staged sums takes long beside products. At head_dim 64, where dK is short, waiting
  // for dK first is faster, at 128 it is slower (TUNING.md, b5).
  constexpr bool kAddsLate = kConfig.head_dim == 64;
  if constexpr (kConfig.deterministic) {
    wait_to_put_dq(memory, stages);
    stage_dq(rDQ, memory.memory + own + stages.q.stage * kConfig.dq_bytes(), opaque(own_lane()));
    ptx::fence_proxy_async_shared();
    tell_dq_is_put(memory, stages);
  } else {
    wait_until_staged_dq_is_read();
    stage_dq(rDQ, memory.memory + own, opaque(own_lane()));
    if constexpr (!kAddsLate) add_staged();
  }
  ptx::wgmma_wait_group<0>();
  fence_operand(rDK);
  fence_operand(rDSRounded);
  release_by_warp(memory.q_ring, stages.q);
  if constexpr (!kConfig.deterministic && kAddsLate) add_staged();
}

// Runs a consumer's work in one warpgroup: dK and dV of 64 keys, and half of the tile's dQ.
template <class T, BackwardConfig kConfig>
__device__ void consume(const BackwardSizes& sizes, const BackwardPointers<T>& pointers,
                        const BackwardMemory<kConfig>& memory) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  const Params& params = sizes.params;
  const i32 warp = warp_uniform(static_cast<i32>(threadIdx.x) / kWarp) - 4;  // of all consumers
  const i32 first_key = 64 * (warp >> 2), warp_key = 16 * warp;              // of the tile
  const i32 lane = own_lane();

  Accumulator<1, kConfig.head_dim / 8> rDK, rDV;
  rDK.clear();
  rDV.clear();

  const auto work_on = [&](auto is_masked, const BackwardStep& step, i32 tile,
                           const BackwardStages<kConfig>& stages) {
    work_on_rows<T, kConfig, is_masked.value>(sizes, memory, step, tile, stages, warp, lane,
                                              first_key, warp_key, rDK, rDV);
  };
  if constexpr (!kConfig.deterministic) wait_for_clear_sums(sizes, memory.index());
  for_steps<kConfig>(sizes, memory, work_on);

  sync_consumers<kConfig>();  // nobody reads K and V any more
  rDV.scale(params.dropout.keep_scale);
  rDK.scale(params.shape.softmax_scale);
  store_keys<T>(params.shape, memory, kTiles.v(), warp_key, rDV, pointers.gDV);
  store_keys<T>(params.shape, memory, kTiles.k(), warp_key, rDK, pointers.gDK);
  ATTNLAB_NOTE(BackwardTimeline(memory).store(opaque(own_lane()) == 0);)
  if constexpr (!kConfig.deterministic) {
    wait_until_staged_dq_is_read();  // shared memory ends with the block
  }
}

template <class T, BackwardConfig kConfig>
__device__ void backward(const BackwardSizes& sizes, const BackwardMaps& maps,
                         const BackwardPointers<T>& pointers
                             ATTNLAB_NOTE(, const TimelinePointer& timeline)) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const BackwardMemory<kConfig> memory(shared_memory);
  ptx::griddepcontrol_launch_dependents();
  if constexpr (kConfig.deterministic) {
    ptx::griddepcontrol_wait();  // prepare_rows clears the tickets
    claim_item(sizes, 0, memory.ticket());
  }
  if (threadIdx.x == 0) {
    ATTNLAB_NOTE(BackwardTimeline(memory).begin(timeline, memory.index());)
    memory.init_rings();
    ATTNLAB_NOTE(const u32 begin = cycles_now();)
    memory.work_tile() = backward_work_tile(sizes, kConfig, memory.index());
    ATTNLAB_NOTE(BackwardTimeline(memory).publish(begin);)
  }
  if constexpr (!kConfig.deterministic) ptx::griddepcontrol_wait();
  const bool beyond_lse = device::any_of_block(is_group_beyond_lse(sizes, memory.index()));
  if (beyond_lse || memory.work_tile().keys.empty()) {  // the latter of a short packed entry
    if constexpr (!kConfig.deterministic) clear_ahead<kConfig>(sizes, memory.index());
    // backward_again has the item.
    if (beyond_lse) {
      const WorkItem item = work_item(sizes.keys, memory.index());
      find_states<kConfig>(sizes, pointers, item, memory.work_tile());
    }
    ATTNLAB_NOTE(BackwardTimeline(memory).store(threadIdx.x == 0);)
    return;
  }
  static_assert(kConfig.producer_registers() + kConfig.consumers() * kConfig.consumer_registers() <=
                    (1 + kConfig.consumers()) * registers_at_launch(kConfig.threads(), 1),
                "setmaxnreg would wait for registers that a launch lacks");
  if (threadIdx.x < device::kWarpgroup) {
    // All of the warpgroup must execute it. One thread then loads, and in a fixed order two add;
    // the others leave, and nothing waits for them.
    ptx::setmaxnreg_dec<kConfig.producer_registers()>();
    if (threadIdx.x == 0) load<kConfig>(sizes, maps, memory);
    if constexpr (!kConfig.deterministic) clear_ahead<kConfig>(sizes, memory.index());
    if constexpr (kConfig.deterministic) {
      const i32 warp = device::warp_uniform(static_cast<i32>(threadIdx.x) / device::kWarp);
      const bool adds = 1 <= warp && warp <= kConfig.stages;
      if (adds && threadIdx.x % device::kWarp == 0) add_by_turns<kConfig>(sizes, memory, warp - 1);
    }
  } else {
    ptx::setmaxnreg_inc<kConfig.consumer_registers()>();
    if constexpr (kConfig.shares_columns()) {
      consume_columns<T, kConfig>(sizes, pointers, memory);
    } else {
      consume<T, kConfig>(sizes, pointers, memory);
    }
  }
}

}  // namespace attnlab::v3
