// v3's backward on a GPU: FlashAttention-3's Algorithm 3 with wgmma and bulk copies (TMA), sm_90a.
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
// copy.
//
// Four kernels: prepare_rows (delta, sums of zeros), backward, backward_again, which has something
// to do only where logits are so large that lse, one fp32 number, does not hold them, and
// finish_rows (sums to dQ). Source: Shah et al., FlashAttention-3 (2024), Algorithm 3.
#pragma once

#include "kernels/device/bool_constant.cuh"
#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax_backward.cuh"
#include "kernels/device/warp_uniform.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/v3/backward_again.cuh"
#include "kernels/v3/backward_rows.cuh"
#include "kernels/v3/backward_work.cuh"
#include "kernels/v3/band_mask.cuh"

namespace attnlab::v3 {

// The named barrier of all consumers.
template <BackwardConfig kConfig>
__device__ void sync_consumers() {
  ptx::barrier_sync(1, kConfig.consumers() * device::kWarpgroup);
}

// Zeroes the rows of a tile from `valid` on, by all consumers: in packed tensors, and of padded
// keys, they may hold anything, and 0 times that must be 0. (Bulk copies fill with zeros what lies
// outside of the tensor.)
template <BackwardConfig kConfig>
__device__ void clear_rows(const SlabTile& tile, u8* sTile, i32 valid) {
  const i32 chunks = tile.columns / device::kChunk;
  const i32 thread = static_cast<i32>(threadIdx.x) - device::kWarpgroup;
  for (i32 i = valid * chunks + thread; i < tile.rows * chunks;
       i += kConfig.consumers() * device::kWarpgroup) {
    *reinterpret_cast<uint4*>(sTile + tile.offset(i / chunks, i % chunks)) = {0, 0, 0, 0};
  }
}

// Stores a warp's 16 rows of dK or dV, by way of its rows of the tile at `offset`, which nobody
// reads any more.
template <class T, BackwardConfig kConfig>
__device__ void store_keys(const Shape& shape, const BackwardMemory<kConfig>& memory, i32 offset,
                           i32 first_key, const device::Accumulator<1, kConfig.head_dim / 8>& sums,
                           T* gKeys) {
  using namespace device;
  constexpr SlabTile kTile = backward_tiles(kConfig).kv;
  const BackwardWorkTile& sWorkTile = memory.work_tile();
  store_accumulator_of_warp<T, kTile>(sums, memory.at(offset), first_key);
  __syncwarp();
  const i32 chunks = static_cast<i32>(shape.head_dim) / kChunk;
  const i32 exist = min(16, static_cast<i32>(sWorkTile.keys.size()) - first_key);
  T* const gRows = gKeys + sWorkTile.key_offset + first_key * shape.k.row;
  for (i32 i = opaque_lane(); i < exist * chunks; i += kWarp) {
    const i32 row = i / chunks, chunk = i % chunks;
    *reinterpret_cast<uint4*>(gRows + row * shape.k.row + chunk * kChunk) =
        *reinterpret_cast<const uint4*>(memory.memory + offset +
                                        kTile.offset(first_key + row, chunk));
  }
}

// The consumers' work, of one warpgroup each: dK and dV of 64 keys, and half of the tile's dQ.
template <class T, BackwardConfig kConfig>
__device__ void consume(const BackwardSizes& sizes, const BackwardPointers<T>& pointers,
                        const BackwardMemory<kConfig>& memory) {
  using namespace device;
  using Part = DqPart<kConfig>;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kRows = kConfig.block_m / 16;      // steps of 16 rows: k of dV and dK
  constexpr i32 kKeys = kConfig.block_n / 16;      // steps of 16 keys: k of dQ
  constexpr i32 kColumns = kConfig.head_dim / 16;  // steps of 16 columns: k of S and dP
  constexpr bool kLooksUp = kConfig.pattern || kConfig.dropout;
  const Params& params = sizes.params;
  const BackwardWorkTile& sWorkTile = memory.work_tile();
  const i32 warp = warp_uniform(static_cast<i32>(threadIdx.x) / kWarp) - 4;  // of all consumers
  const i32 first_key = 64 * (warp / 4), warp_key = 16 * warp;               // of the tile
  const bool is_packed = params.cu_seqlens_q != nullptr;

  Accumulator<1, 2 * kColumns> rDK, rDV;
  rDK.clear();
  rDV.clear();
  PipelineState stage = consumer_start();

  const auto exist_below = [&](i32 m_block) {  // rows from the tile's first on
    return static_cast<i32>(sWorkTile.mask.seqlen_q) - m_block * kConfig.block_m;
  };
  const auto clear_rows_past_end = [&](i32 valid) {
    clear_rows<kConfig>(kTiles.q, memory.memory + kTiles.q_of(stage.stage), valid);
    clear_rows<kConfig>(kTiles.q, memory.memory + kTiles.dout_of(stage.stage), valid);
    ptx::fence_proxy_async_shared();
    sync_consumers<kConfig>();
  };
  const auto release = [&](const Ring<kConfig.stages>& ring) {  // by the warp
    if (opaque_lane() == 0) ring.release(stage);
  };

  // Works on one tile of rows, in the order of FlashAttention-3. A step
  //   1. waits for Q and dO, starts S^T and dP^T,     5. starts dQ, waits for dV, releases dO,
  //   2. waits for S^T, makes P^T of it,              6. starts dK, waits for dQ,
  //   3. waits for dP^T, makes dS^T, stores it,       7. adds dQ to the sums,
  //   4. starts dV, meets the other consumer,         8. waits for dK, releases Q.
  // One meeting a step is enough: who stores dS of the step after next has been at the next one's,
  // to which all come behind their product of this dS.
  const auto work_on = [&](auto is_masked, const BackwardStep& step) {
    const i32 row = step.m_block * kConfig.block_m;
    memory.q_ring.wait_full(stage);
    memory.dout_ring.wait_full(stage);
    if constexpr (is_masked.value) {
      const i32 exist = exist_below(step.m_block);
      if (is_packed && exist < kConfig.block_m) clear_rows_past_end(exist);
    }
    const u32 sQ = memory.at(kTiles.q_of(stage.stage));
    const u32 sDO = memory.at(kTiles.dout_of(stage.stage));
    const u32 sDS = memory.at(kTiles.ds_of(stage.stage));
    FragmentsA<kRows> rPRounded, rDSRounded;
    {
      Accumulator<1, 2 * kRows> rP, rDS;
      ptx::wgmma_fence();
      start_product<T, kColumns>(rP, KMajor<kTiles.kv>(memory.at(kTiles.k()), first_key),
                                 KMajor<kTiles.q>(sQ, 0));  // S^T = K Q^T
      start_product<T, kColumns>(rDS, KMajor<kTiles.kv>(memory.at(kTiles.v()), first_key),
                                 KMajor<kTiles.q>(sDO, 0));  // dP^T = V dO^T
      ptx::wgmma_wait_group<1>();
      fence_operand(rP);
      // Of every eight rows a lane has a pair.
      const i32 pair = static_cast<i32>(threadIdx.x) % 4;
      const float2* const sLse = memory.pairs(kTiles.lse_of(stage.stage)) + pair;
      const float2* const sDelta = memory.pairs(kTiles.delta_of(stage.stage)) + pair;
#pragma unroll
      for (i32 c = 0; c < 2 * kRows; ++c) {  // P^T = exp(S^T - lse)
        const float2 lse = sLse[4 * c];
        recompute_p_of_lse(rP, c, params.shape.softmax_scale_log2,
                           [&](i32 odd) { return odd == 0 ? lse.x : lse.y; });
      }
      ptx::wgmma_wait_group<0>();
      fence_operand(rDS);
      if constexpr (is_masked.value && !kLooksUp) {
        apply_transposed_band_mask(sWorkTile, warp_key, row, rP);
      }
      if constexpr (is_masked.value && kLooksUp) {  // it branches, so no product may run
        for_hidden_transposed<1, 2 * kRows>(sWorkTile.mask, row, sWorkTile.keys.begin + warp_key,
                                            [&](i32 r, i32 c, i32 i) { rP.at[r][c][i] = 0.0f; });
      }
#pragma unroll
      for (i32 c = 0; c < kRows; ++c) {  // dS^T = P^T (Z dP^T - delta)
        const float2 deltas[2] = {sDelta[8 * c], sDelta[8 * c + 4]};
        u32 kept = 0xFF;
        if constexpr (kConfig.dropout) {
          kept = kept_bits_transposed(params.dropout, sWorkTile.first_head + step.head,
                                      row + 16 * c, sWorkTile.keys.begin + warp_key);
        }
        softmax_backward<kConfig.dropout>(rP, rDS, 0, c, deltas, kept, params.dropout.keep_scale);
      }
      round_to<T>(rPRounded, rP);
      round_to<T>(rDSRounded, rDS);
    }
    store_transposed_of_warp<kTiles.ds>(rDSRounded, sDS, warp_key);

    fence_operand(rDV);
    fence_operand(rPRounded);
    ptx::wgmma_fence();
    start_product<T>(rDV, rPRounded, MnMajor<kTiles.q>(sDO), ScaleD::one);  // dV += P^T dO
    ptx::fence_proxy_async_shared();
    sync_consumers<kConfig>();
    typename Part::Accumulator rDQ;
    const i32 dq_slab = Part::column(warp) / SlabTile::kColumns;
    ptx::wgmma_fence();
    start_product<T, kKeys>(
        rDQ, KMajor<kTiles.ds>(sDS, Part::row(warp / 4 * 4)),
        MnMajor<kTiles.kv>(memory.at(kTiles.k() + dq_slab * kTiles.kv.slab_bytes())));
    ptx::wgmma_wait_group<1>();
    fence_operand(rDV);
    fence_operand(rPRounded);
    release(memory.dout_ring);
    fence_operand(rDK);
    fence_operand(rDSRounded);
    ptx::wgmma_fence();
    start_product<T>(rDK, rDSRounded, MnMajor<kTiles.q>(sQ), ScaleD::one);  // dK += dS^T Q
    ptx::wgmma_wait_group<1>();
    fence_operand(rDQ);
    const i32 own = kTiles.dq() + warp * kDqWarpBytes;
    add_dq(rDQ, memory.memory + own, memory.at(own),
           dq_sums_of<kConfig>(sizes.workspace, row_tile(sizes, sWorkTile, step)) +
               warp * (kDqWarpBytes / 4));
    ptx::wgmma_wait_group<0>();
    fence_operand(rDK);
    fence_operand(rDSRounded);
    release(memory.q_ring);
  };

  BackwardStep step = BackwardStep::first(sWorkTile);
  if (step.exists(sWorkTile)) {
    memory.kv_ring.wait_full(consumer_start());
    if (sWorkTile.valid_keys < kConfig.block_n &&
        (params.keys != nullptr || params.cu_seqlens_k != nullptr)) {
      clear_rows<kConfig>(kTiles.kv, memory.memory + kTiles.k(), sWorkTile.valid_keys);
      clear_rows<kConfig>(kTiles.kv, memory.memory + kTiles.v(), sWorkTile.valid_keys);
      ptx::fence_proxy_async_shared();
      sync_consumers<kConfig>();
    }
  }
  for (; step.exists(sWorkTile); step.advance(sWorkTile)) {
    const bool reaches_over = is_packed && exist_below(step.m_block) < kConfig.block_m;
    if (warp_uniform(sWorkTile.tiles.is_partial<kConfig.pattern>(step.m_block) || reaches_over)) {
      work_on(BoolConstant<true>{}, step);
    } else {
      work_on(BoolConstant<false>{}, step);
    }
    stage.advance(kConfig.stages);
  }

  sync_consumers<kConfig>();  // nobody reads K and V any more
  rDV.scale(params.dropout.keep_scale);
  rDK.scale(params.shape.softmax_scale);
  store_keys<T>(params.shape, memory, kTiles.v(), warp_key, rDV, pointers.gDV);
  store_keys<T>(params.shape, memory, kTiles.k(), warp_key, rDK, pointers.gDK);
  // Waits until the last dQ has been read: shared memory ends with the block.
  if (opaque_lane() == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

template <class T, BackwardConfig kConfig>
__device__ void backward(const BackwardSizes& sizes, const BackwardMaps& maps,
                         const BackwardPointers<T>& pointers) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const BackwardMemory<kConfig> memory(shared_memory);
  if (threadIdx.x == 0) {
    memory.init_rings();
    memory.work_tile() = backward_work_tile(sizes, kConfig, blockIdx.x);
  }
  const bool beyond_lse = is_group_beyond_lse(sizes, work_item(sizes.keys, blockIdx.x));
  if (device::any_of_block(beyond_lse)) {  // backward_again has the item
    find_states<kConfig>(sizes, pointers, memory.work_tile());
    return;
  }
  if (memory.work_tile().keys.empty()) return;  // a packed entry shorter than the longest
  if (threadIdx.x < device::kWarpgroup) {
    // All of the warpgroup must execute it. One thread then works; the others leave, and nothing
    // waits for them.
    ptx::setmaxnreg_dec<kConfig.producer_registers()>();
    if (threadIdx.x == 0) load<kConfig>(sizes, maps, memory);
  } else {
    ptx::setmaxnreg_inc<kConfig.consumer_registers()>();
    consume<T, kConfig>(sizes, pointers, memory);
  }
}

}  // namespace attnlab::v3
