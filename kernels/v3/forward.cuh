// Implements v3's forward on a GPU: FlashAttention-3's roles with wgmma and TMA copies, sm_90a.
//
// Against v2 a thread block does not wait for its own loads. Of one warpgroup, the producer, one
// thread starts bulk copies of Q, K and V, into rings of stages with two barriers each, and another
// finds out what is to be done next; the other warpgroups, the consumers, multiply what has
// arrived, 64 query rows each, and give a stage back once their products have read it. The producer
// needs few registers and hands the rest to them. Products run beside the threads that start them,
// which leaves time for two overlaps:
//
// - within a consumer P V of a tile is in flight beside S of the next one and, mostly, while that S
//   is masked and its maxima are found (overlap);
// - consumers start products one after the other, in a fixed order, so that the softmax of one runs
//   while the tensor cores work for another (ping_pong).
//
// O is rescaled only where a row's maximum has grown by much (kSlack in
// kernels/device/softmax.cuh). P never leaves registers: the accumulator of S, rounded, has the
// layout of fragment A of P V. The grid is persistent: a block takes one work item after the other;
// the producer is ahead of the consumers, so that the next item's tiles arrive while this one's O
// is stored. O goes out through shared memory of its own (separate_o) or, where there is no room,
// through that of the item's Q. shared_memory.cuh has the table of rings. Source: Shah et al.,
// FlashAttention-3 (2024), Algorithms 1 and 2, section 3.
#pragma once

#include "kernels/device/attend_again.cuh"
#include "kernels/device/bool_constant.cuh"
#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax.cuh"
#include "kernels/device/warp_uniform.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"
#include "kernels/v3/band_mask.cuh"
#include "kernels/v3/named_barriers.cuh"
#include "kernels/v3/online_softmax.cuh"
#include "kernels/v3/producer.cuh"
#include "kernels/v3/timeline.cuh"

namespace attnlab::v3 {

// Runs a consumer's work in one warpgroup: the paper's Algorithm 2 for one work item after the
// other. Without a producer one thread calls help() between products, to load.
//
// It is one function on purpose. State in a struct, or the epilogue's parts as functions or
// lambdas, give ptxas another order of instructions in every unit; the parts that are lambdas here
// do not. It is inlined without fail, and so is forward(): where a thread of a consumer loads, the
// compiler else calls it, and lets no product run beside what crosses a call (C7510).
template <class T, ForwardConfig kConfig, class Help>
__device__ __forceinline__ void consume(const Params& params, const ForwardMaps& maps,
                                        const ForwardPointers<T>& pointers,
                                        const ForwardMemory<kConfig>& memory, const Help& help) {
  using namespace device;
  const auto [gQ, gK, gV, gO, gLse] = pointers.tensors;
  using Named = NamedBarriers<kConfig>;
  constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  constexpr i32 kKeys = kConfig.block_n / 16;      // steps of 16 keys: k of P V
  constexpr i32 kColumns = kConfig.head_dim / 16;  // steps of 16 columns: k of Q K^T
  constexpr i32 kOrderThreads = 2 * kWarpgroup;    // the consumer that waits, and the one before

  const auto wait = [&](const Phase& phase) {
    if constexpr (kConfig.producer) {
      device::wait(phase);
    } else {
      while (!is_over(phase)) help();
      __syncwarp();
    }
  };
  const i32 consumer =
      warp_uniform(static_cast<i32>(threadIdx.x) / kWarpgroup - (kConfig.producer ? 1 : 0));
  const i32 first_row = 64 * consumer;  // of the tile
  const i32 warp_row =
      first_row + warp_uniform(static_cast<i32>(threadIdx.x) % kWarpgroup / kWarp * 16);
  const bool is_first_thread = threadIdx.x % kWarpgroup == 0;
  const float scale = params.shape.softmax_scale_log2;
  // The last consumer lets consumer 0 begin, so it arrives there once more than consumer 0 waits.
  // Nobody waits for its last arrival, which is harmless: the barrier ends with the block.
  if (kConfig.ping_pong && consumer == kConfig.consumers - 1) {
    ptx::barrier_arrive(Named::order(0), kOrderThreads);
  }

  Accumulator<1, 2 * kKeys> rS;
  Accumulator<1, 2 * kColumns> rO;
  FragmentsA<kKeys> rP;
  PipelineState q = consumer_start(), k = consumer_start(), v = consumer_start();
  PipelineState stage = consumer_start();  // of the ring of work tiles
  // Before its exponentials a step tests (test_wait) whether the next K and V have arrived: mostly
  // they have, and the next step need not wait for a barrier's answer. With dropout registers do
  // not suffice. A stale has_v is never used: an item's last P V waits, and the next first step
  // tests anew.
  constexpr bool kPeeks = kConfig.producer && kConfig.overlap && !kConfig.dropout;
  bool has_k = false, has_v = false;
  const auto peek = [&] {
    if constexpr (kPeeks) {
      has_k = is_over(memory.k_ring.when_full(k));
      has_v = is_over(memory.v_ring.when_full(v));
    }
  };

  for (;; stage.advance(kWorkTileStages)) {
    wait(memory.work_tile_ring.when_full(stage));
    const ForwardWorkTile& sWorkTile = memory.work_tile(stage.stage);
    if (warp_uniform(sWorkTile.ends)) break;
    const i32 num_rows = warp_uniform(sWorkTile.num_rows);
    const auto store_chunks = [&](auto chunk_of) {
      const i32 chunks = static_cast<i32>(params.shape.head_dim) / kChunk;
      T* const gRows = gO + sWorkTile.row_offset + warp_row * params.shape.q.row;
      for (i32 i = opaque_lane(); i < min(16, num_rows - warp_row) * chunks; i += kWarp) {
        const i32 row = i / chunks, chunk = i % chunks;
        *reinterpret_cast<uint4*>(gRows + row * params.shape.q.row + chunk * kChunk) =
            chunk_of(row, chunk);
      }
    };
    const auto release_work_tile = [&] {  // once the warp has read all of sWorkTile
      __syncwarp();
      if (arrives_for_warp(opaque_lane())) memory.work_tile_ring.release(stage);
    };

    const i32 end = warp_uniform(sWorkTile.tiles.end);
    const i32 begin = warp_uniform(sWorkTile.tiles.begin);
    i32 own_end = end;
    if constexpr (kConfig.passes_unseen()) {
      own_end -= warp_uniform(i32{sWorkTile.unseen[consumer]});
    }
    if (begin >= end) {  // rows that see no key
      store_chunks([](i32, i32) { return uint4{0, 0, 0, 0}; });
      const i32 row = warp_row + opaque_lane();
      if (row < min(warp_row + 16, num_rows)) gLse[sWorkTile.lse_offset + row] = -kInfinity;
      ATTNLAB_NOTE(Timeline(memory).store(stage.stage, opaque_lane() == 0);)
      release_work_tile();
      continue;
    }

    ATTNLAB_NOTE(const bool is_consumer_0 = consumer == 0 && is_first_thread;)
    ATTNLAB_NOTE(bool starts_item = true;)
    OnlineSoftmax rows[2];
    ScaleD scale_d = ScaleD::zero;  // of the item's next P V
    wait(memory.q_ring.when_full(q));
    const KMajor<kTiles.q> sQ(memory.at(kTiles.q_tile(q.stage)), first_row);

    // Starts O += P V and leaves it in flight; V is the ring's next tile and has arrived.
    const auto start_pv = [&] {
      fence_operand(rO);
      fence_operand(rP);
      ptx::wgmma_fence();
      start_product<T>(rO, rP, MnMajor<kTiles.v>(memory.at(kTiles.v_tile(v.stage))), scale_d);
      scale_d = ScaleD::one;
    };
    const auto end_pv = [&] {
      ptx::wgmma_wait_group<0>();
      fence_operand(rO);
      fence_operand(rP);
      if (is_first_thread) memory.v_ring.release(v);
      v.advance(kConfig.stages);
    };
    // Zeroes rows of V behind the batch entry's last key: they may hold anything, and 0 times that
    // must be 0. (Bulk copies fill with zeros what lies outside of the tensor.)
    const auto clear_v_past_end = [&](i32 tile) {
      if (params.keys == nullptr && params.cu_seqlens_k == nullptr) return;
      const i64 valid = sWorkTile.mask.valid_k - static_cast<i64>(tile) * kConfig.block_n;
      if (valid >= kConfig.block_n) return;
      wait(memory.v_ring.when_full(v));
      u8* const sV = memory.memory + kTiles.v_tile(v.stage);
      constexpr i32 kChunks = kConfig.head_dim / kChunk;
      constexpr i32 kThreads = kConfig.consumers * kWarpgroup;
      const i32 thread = static_cast<i32>(threadIdx.x) - (kConfig.producer ? kWarpgroup : 0);
      for (i32 i = static_cast<i32>(valid) * kChunks + thread; i < kConfig.block_n * kChunks;
           i += kThreads) {
        *reinterpret_cast<uint4*>(sV + kTiles.v.offset(i / kChunks, i % kChunks)) = {0, 0, 0, 0};
      }
      ptx::fence_proxy_async_shared();
      ptx::barrier_sync(Named::of_all_consumers(), kThreads);
    };

    // Computes S = Q K^T, done when it returns. With `overlap` P V of the tile before starts behind
    // it and is in flight then. The order covers the start of these products, not their time.
    const auto multiply_qk = [&](auto starts_pv, auto is_ordered) {
      if (!has_k) wait(memory.k_ring.when_full(k));
      // V is waited for here so that nobody stalls between the two products while others wait.
      if (starts_pv.value && !has_v) wait(memory.v_ring.when_full(v));
      if constexpr (is_ordered.value) ptx::barrier_sync(Named::order(consumer), kOrderThreads);
      ATTNLAB_NOTE(if constexpr (!starts_pv.value) {
        Timeline(memory).start_product(stage.stage, starts_item && is_consumer_0);
        starts_item = false;
      })
      ptx::wgmma_fence();
      start_product<T, kColumns>(rS, sQ, KMajor<kTiles.k>(memory.at(kTiles.k_tile(k.stage)), 0));
      if constexpr (starts_pv.value) start_pv();
      if constexpr (is_ordered.value) {
        ptx::barrier_arrive(Named::order(next_in_order(consumer, kConfig.consumers)),
                            kOrderThreads);
      }
      ptx::wgmma_wait_group<starts_pv.value ? 1 : 0>();
      fence_operand(rS);
      if (is_first_thread) memory.k_ring.release(k);
      k.advance(kConfig.stages);
    };
    // (row, key) is the first of the warp's part of the tile.
    const auto apply_mask = [&](i64 row, i64 key, i32 tile) {
      if constexpr (kConfig.pattern) {
        for_hidden<1, 2 * kKeys>(sWorkTile.mask, row, key,
                                 [&](i32 r, i32 c, i32 i) { rS.at[r][c][i] = -kInfinity; });
      } else {
        apply_band_mask<kConfig.left>(sWorkTile, warp_row, tile * kConfig.block_n, rS);
      }
    };
    const auto apply_dropout = [&](i64 row, i64 key) {
#pragma unroll
      for (i32 c = 0; c < kKeys; ++c) {
        clear_dropped(rS, 0, c, kept_bits(params.dropout, sWorkTile.slice, row, key + 16 * c));
      }
    };

    // Works on one tile of keys, j. With `overlap` and `ping_pong` a step
    //   1. waits for K_j and V_{j-1},       6. waits for S_j, releases K_j,
    //   2. waits for the consumer before,   7. masks S_j and finds its maxima,
    //   3. starts S_j = Q K_j^T,            8. waits for the product of 4, releases V_{j-1},
    //   4. starts O += P_{j-1} V_{j-1},     9. tests for K_{j+1}, V_j, makes P_j and rounds it,
    //   5. lets the next consumer start,   10. rescales O.
    // With kEndsEarly 8 precedes 7; without kPeeks it comes in 9, before P_j is rounded. An item's
    // first step has no V_{j-1} and is not ordered, so it has no 2, 4, 5, 8 and 10, and the
    // last P V follows the last step, not ordered either. Without `overlap` there is no V_{j-1} in
    // any step; V_j is waited for and O += P_j V_j done after 10.
    const auto step = [&](auto is_first, auto is_masked, i32 tile) {
      constexpr bool kOverlaps = kConfig.overlap && !is_first.value;
      // P V ends before the mask where that branches, as the lookup of a pattern does, or takes
      // registers that three consumers do not have.
      constexpr bool kEndsEarly = is_masked.value && (kConfig.pattern || kConfig.consumers == 3);
      constexpr bool kIsOrdered = kConfig.ping_pong && !is_first.value;
      multiply_qk(BoolConstant<kOverlaps>{}, BoolConstant<kIsOrdered>{});
      if constexpr (kOverlaps && kEndsEarly) end_pv();
      const i64 row = sWorkTile.rows.begin + warp_row;
      const i64 key = static_cast<i64>(tile) * kConfig.block_n;
      if constexpr (is_masked.value) apply_mask(row, key, tile);
      float factors[2];
      // Three consumers at head dim 128 win by integers, others do not (TUNING.md, version 29).
      constexpr bool kByBits =
          kPeeks && !is_masked.value && kConfig.head_dim == 128 && kConfig.consumers == 3;
      const bool raises = softmax_step<is_masked.value, kByBits>(scale, rows, rS, factors, [&] {
        if constexpr (kOverlaps && !kEndsEarly && kPeeks) end_pv();
        peek();
      });
      if constexpr (kConfig.dropout) apply_dropout(row, key);
      if constexpr (kOverlaps && !kEndsEarly && !kPeeks) end_pv();
      // P is rounded before the branch: ptxas then mixes it with the exponentials.
      round_to<T>(rP, rS);
      if constexpr (!is_first.value) {
        if (raises) rescale_rows(rO, factors);
      }
      if constexpr (!kConfig.overlap) {
        clear_v_past_end(tile);
        wait(memory.v_ring.when_full(v));
        start_pv();
        end_pv();
      }
      if constexpr (!kConfig.producer) help();  // no product is in flight
    };
    // Takes runs of tiles of one class, so that little is looked up between two tiles, where tensor
    // cores may be waiting.
    const auto run = [&](auto is_first, auto is_masked, i32 tile, i32 run_end) {
      do {
        step(is_first, is_masked, tile);
      } while (++tile < run_end);
    };
    const auto run_of_class = [&](auto is_first, i32 tile, i32 run_end) {
      if (warp_uniform(sWorkTile.tiles.template is_partial<kConfig.pattern>(tile))) {
        run(is_first, BoolConstant<true>{}, tile, run_end);
      } else {
        run(is_first, BoolConstant<false>{}, tile, run_end);
      }
    };
    const auto next_tile = [&](i32 tile) {
      return kConfig.pattern ? warp_uniform(sWorkTile.tiles.not_empty(tile)) : tile;
    };
    // Follows Algorithm 2: the first tile, all others, and P V of the last one.
    run_of_class(BoolConstant<true>{}, begin, begin + 1);
    i32 last = begin;
    for (i32 tile = next_tile(last + 1); tile < own_end; tile = next_tile(last + 1)) {
      i32 run_end = warp_uniform(sWorkTile.tiles.template run_end<kConfig.pattern>(tile));
      if constexpr (kConfig.passes_unseen()) run_end = min(run_end, own_end);
      run_of_class(BoolConstant<false>{}, tile, run_end);
      last = run_end - 1;
    }
    // K of tiles that only later consumers see goes by, and with it this consumer's turn.
    if constexpr (kConfig.passes_unseen()) {
      for (i32 tile = own_end; tile < end; ++tile) {
        if (!has_k) wait(memory.k_ring.when_full(k));
        has_k = false;
        if constexpr (kConfig.ping_pong) {
          ptx::barrier_sync(Named::order(consumer), kOrderThreads);
          ptx::barrier_arrive(Named::order(next_in_order(consumer, kConfig.consumers)),
                              kOrderThreads);
        } else {
          ptx::barrier_sync(Named::of_consumer(consumer), kWarpgroup);  // all warps have seen it
        }
        if (is_first_thread) memory.k_ring.release(k);
        k.advance(kConfig.stages);
      }
    }
    if constexpr (kConfig.separate_o) {
      if (arrives_for_warp(opaque_lane())) memory.q_ring.release(q);
    }
    if constexpr (kConfig.overlap) {
      clear_v_past_end(last);
      wait(memory.v_ring.when_full(v));
      start_pv();
    }

    // The epilogue adds up, during the last P V, a row's sums over its four lanes, and finds lse,
    // one row a lane.
    const i32 lane = opaque_lane();
    float scales[2];
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      rows[half].sum += __shfl_xor_sync(0xFFFFFFFFu, rows[half].sum, 2);
      rows[half].sum += __shfl_xor_sync(0xFFFFFFFFu, rows[half].sum, 1);
      scales[half] = device::final_scale(rows[half]) * params.dropout.keep_scale;
    }
    const i32 half = lane % 2;
    const i32 row = warp_row + 8 * half + lane / 4;
    const OnlineSoftmax own = half == 0 ? rows[0] : rows[1];
    const bool stores_lse = lane % 4 < 2 && row < num_rows;
    const bool lost = stores_lse && is_lost(own);
    if (stores_lse) gLse[sWorkTile.lse_offset + row] = lse_or_mark(own);
    if constexpr (kConfig.overlap) end_pv();
    if constexpr (kConfig.passes_unseen()) {  // V of these tiles goes by, too
      for (i32 tile = own_end; tile < end; ++tile) {
        clear_v_past_end(tile);
        wait(memory.v_ring.when_full(v));
        ptx::barrier_sync(Named::of_consumer(consumer), kWarpgroup);
        if (is_first_thread) memory.v_ring.release(v);
        v.advance(kConfig.stages);
      }
    }
    scale_rows(rO, scales);

    // O goes out through shared memory, where a warp needs only its own 16 rows of the tile.
    const i32 o_tile = kTiles.o_tile(q.stage);
    if constexpr (kConfig.separate_o) {
      if (lane == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the last item's O has left
      __syncwarp();
    } else {
      ptx::barrier_sync(Named::of_consumer(consumer), kWarpgroup);  // all warps are done with Q
    }
    store_accumulator_of_warp<T, kTiles.o>(rO, memory.at(o_tile), warp_row);
    ptx::fence_proxy_async_shared();  // bulk copies read it now, or overwrite it later
    __syncwarp();
    if (params.cu_seqlens_q != nullptr) {  // the next rows are those of another batch entry
      const u8* const sO = memory.memory + o_tile;
      store_chunks([&](i32 row, i32 chunk) {
        return *reinterpret_cast<const uint4*>(sO + kTiles.o.offset(warp_row + row, chunk));
      });
    } else if (lane == 0) {
      for (i32 slab = 0; slab < kTiles.o.slabs(); ++slab) {
        ptx::cp_async_bulk_tensor_4d_store(
            maps.o, slab * SlabTile::kColumns, sWorkTile.first_row + warp_row, sWorkTile.head,
            sWorkTile.map_batch,
            memory.at(o_tile + slab * kTiles.o.slab_bytes() + warp_row * SlabTile::kRowBytes));
      }
      ptx::cp_async_bulk_commit_group();
      if constexpr (!kConfig.separate_o) ptx::cp_async_bulk_wait_group_read<0>();
    }
    if (any_of_warp(lost)) {
      if (opaque_lane() == 0) ptx::cp_async_bulk_wait_group<0>();  // O of the tile is stored
      __syncwarp();
      const i64 first = sWorkTile.rows.begin + warp_row;
      attend_again<Scores::by_plain_sums>(params, sWorkTile.batch, sWorkTile.head,
                                          {first, min(first + 16, sWorkTile.rows.end)}, 1, gQ, gK,
                                          gV, gO, gLse, [](i64, const OnlineSoftmax&) {});
    }
    ATTNLAB_NOTE(Timeline(memory).store(stage.stage, lane == 0);)
    release_work_tile();
    if constexpr (!kConfig.separate_o) {
      if (arrives_for_warp(opaque_lane())) memory.q_ring.release(q);
    }
    q.advance(kConfig.q_stages);
  }
  // Waits for the last bulk store: shared memory ends with the block.
  if (opaque_lane() == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

template <class T, ForwardConfig kConfig>
__device__ __forceinline__ void forward(const ForwardSizes& sizes, const ForwardMaps& maps,
                                        const ForwardPointers<T>& pointers
                                            ATTNLAB_NOTE(, const TimelinePointer& timeline)) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const ForwardMemory<kConfig> memory(shared_memory);
  if (threadIdx.x == 0) memory.init_rings();
  ATTNLAB_NOTE(if (threadIdx.x == 0) Timeline(memory).begin(timeline);)
  __syncthreads();
  if constexpr (!kConfig.producer) {
    Scheduler<kConfig> scheduler(sizes.params, sizes.grid, pointers.entries, pointers.next_item,
                                 memory);
    Loader<kConfig> loader(maps, memory);
    consume<T, kConfig>(sizes.params, maps, pointers, memory, [&] {
      if (threadIdx.x != 0) return;
      work_if_ready(scheduler);
      work_if_ready(loader);
    });
  } else if (threadIdx.x < device::kWarpgroup) {
    // All of the warpgroup must execute it. Two threads then work, in a warp each; the other 126
    // leave, and nothing waits for them.
    ptx::setmaxnreg_dec<kConfig.producer_registers()>();
    if (threadIdx.x == 0) {
      work(Loader<kConfig>(maps, memory));
    } else if (threadIdx.x == device::kWarp) {
      work(Scheduler<kConfig>(sizes.params, sizes.grid, pointers.entries, pointers.next_item,
                              memory));
    }
  } else {
    ptx::setmaxnreg_inc<kConfig.consumer_registers()>();
    consume<T, kConfig>(sizes.params, maps, pointers, memory, [] {});
  }
}

}  // namespace attnlab::v3
