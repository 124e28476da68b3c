// v3's forward on a GPU: FlashAttention-3's roles with wgmma and bulk copies (TMA), sm_90a.
//
// Against v2 a thread block does not wait for its own loads. Of one warpgroup, the producer, one
// thread starts bulk copies of Q, K and V, into rings of stages with two barriers each, and another
// finds out what is to be done next; the other warpgroups, the consumers, multiply what has
// arrived, 64 query rows each, and give a stage back once their products have read it. The producer
// needs few registers and hands the rest to them. Products run beside the threads that start them,
// which leaves time for two overlaps:
//
// - within a consumer S of the next tile is under way while P V of this one is, and the softmax of
//   the next tile runs while P V still does (overlap);
// - between consumers turns are taken at starting products, so that the softmax of one runs while
//   the tensor cores work for another (ping_pong).
//
// O is rescaled only where a row's maximum has grown by much (kSlack in
// kernels/device/softmax.cuh). P never leaves registers: sums of S, rounded, lie as the left factor
// of P V must. A block stays and takes one work item after the other; the producer is ahead of the
// consumers, so that the next item's tiles arrive while this one's O is stored. O goes out through
// a place of its own or, where there is no room, that of the item's Q. Source: Shah et al.,
// FlashAttention-3 (2024), Algorithms 1 and 2, section 3.
#pragma once

#include "kernels/device/attend_again.cuh"
#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"
#include "kernels/v3/producer.cuh"

namespace attnlab::v3 {

// Named barriers of a block; 0 is __syncthreads().
template <ForwardConfig kConfig>
struct NamedBarriers {
  static __device__ i32 turn(i32 consumer) { return 1 + consumer; }
  static __device__ i32 of_consumer(i32 consumer) { return 1 + kConfig.consumers + consumer; }
  static __device__ i32 of_all_consumers() { return 1 + 2 * kConfig.consumers; }
};

// What is the same for all lanes, and said to be: the compiler keeps it once for the warp, and
// knows that nobody goes another way.
__device__ inline i32 of_warp(i32 value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }
__device__ inline bool of_warp(bool value) { return __any_sync(0xFFFFFFFFu, value); }

// The lowest `count` of 32 bits.
__device__ inline u32 lowest_bits(i32 count) {
  return count >= 32 ? ~0u : (1u << max(count, 0)) - 1;
}

// Hides what the rows of a lane may not see, without a branch: products may be under way. The
// warp's sums are of rows from `row` of the block on and keys from `key` on; unless kLeft, the band
// has no left border. What a row sees of its lane's columns becomes bits, of which an instruction
// brings several to predicates. (Rows past the last one are never stored.)
template <bool kLeft, i32 kColumns>
__device__ void hide_outside_band(const ForwardBlock& sBlock, i32 row, i32 key,
                                  device::Sums<1, kColumns>& rS) {
  constexpr i32 kWord = 16;  // pieces of two columns
  const i32 lane = static_cast<i32>(threadIdx.x) % device::kWarp;
  const i32 first = key + 2 * (lane % 4);
  // How many of the lane's columns, two of eight, lie before a border.
  const auto columns_before = [&](i32 border) {
    const i32 columns = min(8 * kColumns, max(0, border - first));
    return columns / 8 * 2 + min(columns % 8, 2);
  };
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const i32 own_row = row + 8 * half + lane / 4;
    const i32 begin = kLeft ? columns_before(sBlock.band_begin + own_row) : 0;
    const i32 end = columns_before(min(sBlock.band_end + own_row, sBlock.valid_k));
#pragma unroll
    for (i32 c = 0; c < kColumns; c += kWord) {
      u32 seen = lowest_bits(end - 2 * c);
      if constexpr (kLeft) seen &= ~lowest_bits(begin - 2 * c);
#pragma unroll
      for (i32 i = 0; i < 2 * min(kWord, kColumns - c); ++i) {
        float& score = rS.at[0][c + i / 2][2 * half + i % 2];
        score = (seen & 1u << i) != 0 ? score : -kInfinity;
      }
    }
  }
}

// Scores become exp2(softmax_scale_log2 * score - reference). Returns whether the reference of any
// row of the warp was raised: O must then follow by `factors`. (No branch: products are under way.)
// The maximum of a row is the same in its four lanes, the sum is over the lane's own columns until
// the end. Unless kHides, the tile is one of which rows see all.
template <bool kHides, i32 kColumns>
__device__ bool softmax_step(float scale, OnlineSoftmax (&rows)[2], device::Sums<1, kColumns>& rS,
                             float (&factors)[2]) {
  float tile_max[2];
#pragma unroll
  for (i32 half = 0; half < 2; ++half) tile_max[half] = device::row_maximum(rS, 0, half) * scale;
  const bool raises = of_warp(tile_max[0] > rows[0].max + device::kSlack ||
                              tile_max[1] > rows[1].max + device::kSlack);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    OnlineSoftmax& row = rows[half];
    const float old_max = row.max;
    row.max = raises ? fmaxf(old_max, tile_max[half]) : old_max;
    const float reference = kHides ? finite_max(row.max) : row.max;
    factors[half] = ptx::ex2_approx_ftz_f32(old_max - reference);
    row.sum = row.sum * factors[half] + device::exponentiate_row(rS, 0, half, scale, reference);
  }
  return raises;
}

template <i32 kColumns>
__device__ void scale_rows(device::Sums<1, kColumns>& rO, const float (&factors)[2]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) rO.at[0][c][i] *= factors[i / 2];
  }
}

// O follows the references of its rows. What a factor of 0 leaves is 0 even of an infinite O, which
// a tile leaves whose maximum is large and negative (attend_again.cuh).
template <i32 kColumns>
__device__ void rescale_rows(device::Sums<1, kColumns>& rO, const float (&factors)[2]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& o = rO.at[0][c][i];
      o = factors[i / 2] == 0.0f ? 0.0f : o * factors[i / 2];
    }
  }
}

template <bool kValue>
struct Truth {
  static constexpr bool value = kValue;
};

// A consumer: its warpgroup. Where there is no producer, one thread calls help() now and then.
template <class T, ForwardConfig kConfig, class Help>
__device__ void consume(const Params& params, const ForwardMaps& maps,
                        const ForwardPointers<T>& pointers, const ForwardMemory<kConfig>& memory,
                        const Help& help) {
  using namespace device;
  const auto [gQ, gK, gV, gO, gLse] = pointers.tensors;
  using Named = NamedBarriers<kConfig>;
  constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  constexpr i32 kKeys = kConfig.block_n / 16;      // pieces of a tile's keys
  constexpr i32 kColumns = kConfig.head_dim / 16;  // pieces of a head
  constexpr i32 kTurnThreads = 2 * kWarpgroup;     // who waits for a turn, and who gives it

  const auto wait = [&](const Phase& phase) {
    if constexpr (kConfig.producer) {
      device::wait(phase);
    } else {
      while (!is_over(phase)) help();
      __syncwarp();
    }
  };
  const i32 consumer =
      of_warp(static_cast<i32>(threadIdx.x) / kWarpgroup - (kConfig.producer ? 1 : 0));
  const i32 first_row = 64 * consumer;  // of the tile
  const i32 warp_row = first_row + of_warp(static_cast<i32>(threadIdx.x) % kWarpgroup / kWarp * 16);
  const bool is_first_thread = threadIdx.x % kWarpgroup == 0;
  const float scale = params.shape.softmax_scale_log2;
  if (kConfig.ping_pong && consumer == kConfig.consumers - 1) {
    ptx::barrier_arrive(Named::turn(0), kTurnThreads);  // the first turn
  }

  Sums<1, 2 * kKeys> rS;
  Sums<1, 2 * kColumns> rO;
  LeftFactor<kKeys> rP;
  PipelineState q = consumer_start(), k = consumer_start(), v = consumer_start();
  PipelineState stage = consumer_start();  // of the block ring

  for (;; stage.advance(kBlockStages)) {
    wait(memory.block_ring.when_full(stage));
    const ForwardBlock& sBlock = memory.block(stage.stage);
    if (of_warp(sBlock.ends)) break;
    const i32 num_rows = of_warp(sBlock.num_rows);
    const auto store_chunks = [&](auto chunk_of) {
      const i32 chunks = static_cast<i32>(params.shape.head_dim) / kChunk;
      T* const gRows = gO + sBlock.row_offset + warp_row * params.shape.q.row;
      for (i32 i = lane_anew(); i < min(16, num_rows - warp_row) * chunks; i += kWarp) {
        const i32 row = i / chunks, chunk = i % chunks;
        *reinterpret_cast<uint4*>(gRows + row * params.shape.q.row + chunk * kChunk) =
            chunk_of(row, chunk);
      }
    };
    const auto next_item = [&] {  // once the warp has read all of sBlock
      __syncwarp();
      if (lane_anew() == 0) memory.block_ring.release(stage);
    };

    const i32 end = of_warp(sBlock.tiles.end);
    const i32 begin = of_warp(sBlock.tiles.begin);
    if (begin >= end) {  // rows that see no key
      store_chunks([](i32, i32) { return uint4{0, 0, 0, 0}; });
      const i32 row = warp_row + lane_anew();
      if (row < min(warp_row + 16, num_rows)) gLse[sBlock.lse_offset + row] = -kInfinity;
      next_item();
      continue;
    }

    OnlineSoftmax rows[2];
    Onto onto = Onto::zero;  // of the item's next P V
    wait(memory.q_ring.when_full(q));
    const AlongRows<kTiles.q> sQ(memory.at(kTiles.q_tile(q.stage)), first_row);

    // O += P V, of which the tile of V is the ring's next and has arrived.
    const auto start_values = [&] {
      hold(rO);
      hold(rP);
      ptx::wgmma_fence();
      start_product<T>(rO, rP, AcrossRows<kTiles.kv>(memory.at(kTiles.v_tile(v.stage))), onto);
      onto = Onto::sums;
    };
    const auto end_values = [&] {
      ptx::wgmma_wait_group<0>();
      hold(rO);
      hold(rP);
      if (is_first_thread) memory.v_ring.release(v);
      v.advance(kConfig.stages);
    };
    // The last keys of a tile may be none of this batch entry, and hold anything: 0 times that must
    // be 0. (What lies outside the tensor is 0 anyway.)
    const auto clear_values_past = [&](i32 tile) {
      if (params.keys == nullptr && params.cu_seqlens_k == nullptr) return;
      const i64 valid = sBlock.mask.valid_k - static_cast<i64>(tile) * kConfig.block_n;
      if (valid >= kConfig.block_n) return;
      wait(memory.v_ring.when_full(v));
      u8* const sV = memory.memory + kTiles.v_tile(v.stage);
      constexpr i32 kChunks = kConfig.head_dim / kChunk;
      constexpr i32 kThreads = kConfig.consumers * kWarpgroup;
      const i32 thread = static_cast<i32>(threadIdx.x) - (kConfig.producer ? kWarpgroup : 0);
      for (i32 i = static_cast<i32>(valid) * kChunks + thread; i < kConfig.block_n * kChunks;
           i += kThreads) {
        *reinterpret_cast<uint4*>(sV + kTiles.kv.offset(i / kChunks, i % kChunks)) = {0, 0, 0, 0};
      }
      ptx::fence_proxy_async_shared();
      ptx::barrier_sync(Named::of_all_consumers(), kThreads);
    };

    // One tile of keys: S, P, and O += P V of this tile or, with overlap, of the one before.
    const auto step = [&](auto is_first, auto is_partial, i32 tile) {
      constexpr bool kBefore = kConfig.overlap && !decltype(is_first)::value;
      constexpr bool kTurns = kConfig.ping_pong && !decltype(is_first)::value;
      // Masks come after the products where they take branches, as those that look up a pattern do,
      // or registers that three consumers do not have.
      constexpr bool kEndsEarly =
          decltype(is_partial)::value && (kConfig.pattern || kConfig.consumers == 3);
      wait(memory.k_ring.when_full(k));
      if constexpr (kBefore) wait(memory.v_ring.when_full(v));  // not between products
      if constexpr (kTurns) ptx::barrier_sync(Named::turn(consumer), kTurnThreads);
      ptx::wgmma_fence();
      start_product<T, kColumns>(
          rS, sQ, AlongRows<kTiles.kv>(memory.at(kTiles.k_tile(k.stage)), 0));  // S = Q K^T
      if constexpr (kBefore) start_values();
      if constexpr (kTurns) {
        ptx::barrier_arrive(Named::turn(next_in_turn(consumer, kConfig.consumers)), kTurnThreads);
      }
      ptx::wgmma_wait_group<kBefore ? 1 : 0>();
      hold(rS);
      if (is_first_thread) memory.k_ring.release(k);
      k.advance(kConfig.stages);
      if constexpr (kBefore && kEndsEarly) end_values();

      const i64 row = sBlock.rows.begin + warp_row;
      const i64 key = static_cast<i64>(tile) * kConfig.block_n;
      if constexpr (kConfig.pattern && decltype(is_partial)::value) {
        for_hidden<1, 2 * kKeys>(sBlock.mask, row, key,
                                 [&](i32 r, i32 c, i32 i) { rS.at[r][c][i] = -kInfinity; });
      } else if constexpr (decltype(is_partial)::value) {
        hide_outside_band<kConfig.left>(sBlock, warp_row, tile * kConfig.block_n, rS);
      }
      float factors[2];
      const bool raises =  // P = exp(S - max)
          softmax_step<decltype(is_partial)::value>(scale, rows, rS, factors);
      if constexpr (kConfig.dropout) {
#pragma unroll
        for (i32 c = 0; c < kKeys; ++c) {
          clear_dropped(rS, 0, c, kept_bits(params.dropout, sBlock.slice, row, key + 16 * c));
        }
      }
      if constexpr (kBefore && !kEndsEarly) end_values();
      if constexpr (!decltype(is_first)::value) {
        if (raises) rescale_rows(rO, factors);
      }
      round_to<T>(rP, rS);
      if constexpr (!kConfig.overlap) {
        clear_values_past(tile);
        wait(memory.v_ring.when_full(v));
        start_values();
        end_values();
      }
      if constexpr (!kConfig.producer) help();  // no product is under way
    };
    // Runs of tiles of one class, so that little is looked up between two tiles: the tensor cores
    // may be waiting.
    const auto run = [&](auto is_first, auto is_partial, i32 tile, i32 run_end) {
      do {
        step(is_first, is_partial, tile);
      } while (++tile < run_end);
    };
    const auto run_of_class = [&](auto is_first, i32 tile, i32 run_end) {
      if (of_warp(sBlock.tiles.template is_partial<kConfig.pattern>(tile))) {
        run(is_first, Truth<true>{}, tile, run_end);
      } else {
        run(is_first, Truth<false>{}, tile, run_end);
      }
    };
    const auto next_tile = [&](i32 tile) {
      return kConfig.pattern ? of_warp(sBlock.tiles.not_empty(tile)) : tile;
    };
    run_of_class(Truth<true>{}, begin, begin + 1);
    i32 last = begin;
    for (i32 tile = next_tile(last + 1); tile < end; tile = next_tile(last + 1)) {
      const i32 run_end = of_warp(sBlock.tiles.template run_end<kConfig.pattern>(tile));
      run_of_class(Truth<false>{}, tile, run_end);
      last = run_end - 1;
    }
    if constexpr (kConfig.own_o) {
      if (lane_anew() == 0) memory.q_ring.release(q);
    }
    if constexpr (kConfig.overlap) {
      clear_values_past(last);
      wait(memory.v_ring.when_full(v));
      start_values();
    }

    // Meanwhile lse, of whose rows each lane looks after one, and what O is multiplied with.
    const i32 lane = lane_anew();
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
    if (stores_lse) gLse[sBlock.lse_offset + row] = lse_or_mark(own);
    if constexpr (kConfig.overlap) end_values();
    scale_rows(rO, scales);

    // O, by way of the warp's own rows of its place.
    const i32 o_tile = kTiles.o_tile(q.stage);
    if constexpr (kConfig.own_o) {
      if (lane == 0) ptx::cp_async_bulk_wait_group_read<0>();  // what left it last
      __syncwarp();
    } else {
      ptx::barrier_sync(Named::of_consumer(consumer), kWarpgroup);  // all four have done with Q
    }
    store_sums_of_warp<T, kTiles.q>(rO, memory.at(o_tile), warp_row);
    ptx::fence_proxy_async_shared();  // bulk copies read it now, or overwrite it later
    __syncwarp();
    if (params.cu_seqlens_q != nullptr) {  // the next rows are those of another batch entry
      const u8* const sO = memory.memory + o_tile;
      store_chunks([&](i32 row, i32 chunk) {
        return *reinterpret_cast<const uint4*>(sO + kTiles.q.offset(warp_row + row, chunk));
      });
    } else if (lane == 0) {
      for (i32 slab = 0; slab < kTiles.q.slabs(); ++slab) {
        ptx::cp_async_bulk_tensor_4d_store(
            maps.o, slab * SlabTile::kColumns, sBlock.first_row + warp_row, sBlock.head,
            sBlock.batch,
            memory.at(o_tile + slab * kTiles.q.slab_bytes() + warp_row * SlabTile::kRowBytes));
      }
      ptx::cp_async_bulk_commit_group();
      if constexpr (!kConfig.own_o) ptx::cp_async_bulk_wait_group_read<0>();
    }
    if (of_warp(lost)) {
      if (lane_anew() == 0) ptx::cp_async_bulk_wait_group<0>();  // O of the tile is stored
      __syncwarp();
      const i64 first = sBlock.rows.begin + warp_row;
      attend_again<Scores::by_plain_sums>(params, sBlock.batch, sBlock.head,
                                          {first, min(first + 16, sBlock.rows.end)}, 1, gQ, gK, gV,
                                          gO, gLse, [](i64, const OnlineSoftmax&) {});
    }
    next_item();
    if constexpr (!kConfig.own_o) {
      if (lane_anew() == 0) memory.q_ring.release(q);
    }
    q.advance(kConfig.q_stages);
  }
  if (lane_anew() == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the block's memory ends with it
}

template <class T, ForwardConfig kConfig>
__device__ void forward(const ForwardSizes& sizes, const ForwardMaps& maps,
                        const ForwardPointers<T>& pointers) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const ForwardMemory<kConfig> memory(shared_memory);
  if (threadIdx.x == 0) {
    memory.q_ring.init(4 * kConfig.consumers);  // each warp
    memory.k_ring.init(kConfig.consumers);      // a thread for its warpgroup
    memory.v_ring.init(kConfig.consumers);
    memory.block_ring.init(4 * kConfig.consumers + 1);  // and the loader
    ptx::fence_mbarrier_init();
  }
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
