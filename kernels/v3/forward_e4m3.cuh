// Implements v3's forward on e4m3: the roles, rings and order of forward.cuh, whose head describes
// them, with factors of 8 bits, which tensor cores multiply twice as fast. What changes:
//
// - Q, K and V come as codes with scales (kernels/shared/quantise.h), V transposed and its keys
//   permuted, so that P, rounded in registers, meets its own keys without a shuffle.
// - A tile's scores are of the scale of its K. Maxima are compared in scaled units.
// - P is shifted by 2^kShiftOfP, so that e4m3 holds it down to 2^-18 of its row's maximum. Where
//   O is not promoted a rise of the maximum by less than 2^kSlackOfP costs no rescaling of O.
// - Tiles go from the last to the first. Large scores at the first keys (a sink) come late then:
//   what came before has been rounded relative to the smaller maximum of its time.
// - wgmma on e4m3 keeps 13 bits of its sums (kernels/ptx/wgmma.cuh). With `promote` P V of a tile
//   has an accumulator of its own, added to O in fp32; the same FMA of an element rescales O and
//   brings it to the scale of the next block of V.
// - Forms without overlap hold tiles for which registers do not suffice with it. P V of their tile
//   is computed in pieces of keys, each beside the exponentials of the next, or, promoted, in parts
//   of V's columns.
// - With `ping_pong` a consumer's turn lasts until its S is done, not only until it is started.
//
// Source: Shah et al., FlashAttention-3 (2024), section 3.3. Promotion: DeepSeek-V3's technical
// report (2024), section 3.3.2. Order of tiles: arXiv 2606.06521.
#pragma once

#include "kernels/device/bool_constant.cuh"
#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax.cuh"
#include "kernels/device/warp_uniform.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/rcp.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/shared/quantise.h"
#include "kernels/v3/band_mask.cuh"
#include "kernels/v3/named_barriers.cuh"
#include "kernels/v3/online_softmax.cuh"
#include "kernels/v3/producer.cuh"

namespace attnlab::v3 {

// Computes rO = rO * factor + rT, row by row, of the columns that rT has, those from 8 `first` on.
template <i32 kAll, i32 kColumns>
__device__ void promote(device::Accumulator<1, kAll>& rO, i32 first,
                        const device::Accumulator<1, kColumns>& rT, const float (&factors)[2]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& o = rO.at[0][first + c][i];
      o = fmaf(o, factors[i / 2], rT.at[0][c][i]);
    }
  }
}

// Multiplies each column by its scale; those from head_dim on, which are zero, are left.
template <i32 kColumns>
__device__ void scale_columns(device::Accumulator<1, kColumns>& rO, const float* gScales,
                              i32 head_dim) {
  const auto* const gOwn = reinterpret_cast<const float2*>(gScales) + device::opaque_lane() % 4;
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
    if (8 * c >= head_dim) break;
    const float2 scales = gOwn[4 * c];
#pragma unroll
    for (i32 i = 0; i < 4; ++i) rO.at[0][c][i] *= i % 2 == 0 ? scales.x : scales.y;
  }
}

// RowsOfO says where a warp's 16 rows of O go.
template <class T>
struct RowsOfO {
  T* gRows;    // the first of them
  i64 stride;  // of a row
  i32 rows;    // that there are of the 16; 0 or less: none
  i32 chunks;  // of a row
};

// Stores chunk_of(row, chunk) of all rows, 16 bytes each.
template <class T, class ChunkOf>
__device__ void store_chunks(const RowsOfO<T>& to, const ChunkOf& chunk_of) {
  for (i32 i = device::opaque_lane(); i < min(16, to.rows) * to.chunks; i += device::kWarp) {
    const i32 row = i / to.chunks, chunk = i % to.chunks;
    *reinterpret_cast<uint4*>(to.gRows + row * to.stride + chunk * device::kChunk) =
        chunk_of(row, chunk);
  }
}

// Stores a warp's 16 rows of O by way of its own rows of the tile in shared memory: by bulk copies
// or, where the next rows are those of another batch entry, with plain stores.
template <class T, ForwardConfig kConfig>
__device__ void store_o(const ForwardMemory<kConfig>& memory, const ForwardWorkTile& sWorkTile,
                        const TensorMap& map, bool is_packed, i32 warp_row, const RowsOfO<T>& to,
                        const device::Accumulator<1, kConfig.head_dim / 8>& rO) {
  constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  const i32 o_tile = kTiles.o_tile(0);
  if (device::opaque_lane() == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the last O has left
  __syncwarp();
  // The lane is opaque: else the compiler works out all addresses once, and they take registers.
  device::store_accumulator_of_warp<T, kTiles.o>(rO, memory.at(o_tile), warp_row,
                                                 device::opaque_lane());
  ptx::fence_proxy_async_shared();  // bulk copies read it now, or overwrite it later
  __syncwarp();
  if (is_packed) {
    const u8* const sO = memory.memory + o_tile;
    store_chunks(to, [&](i32 row, i32 chunk) {
      return *reinterpret_cast<const uint4*>(sO + kTiles.o.offset(warp_row + row, chunk));
    });
  } else if (device::opaque_lane() == 0) {
    for (i32 slab = 0; slab < kTiles.o.slabs(); ++slab) {
      ptx::cp_async_bulk_tensor_4d_store(
          map, slab * kTiles.o.slab_columns(), sWorkTile.first_row + warp_row, sWorkTile.head,
          sWorkTile.map_batch,
          memory.at(o_tile + slab * kTiles.o.slab_bytes() + warp_row * kTiles.o.row_bytes()));
    }
    ptx::cp_async_bulk_commit_group();
  }
}

// Adds up the sums of a row, which its four lanes have, stores lse, one row a lane, and returns
// what O is multiplied with. A row whose maximum fp32 does not hold (is_lost) becomes NaN.
__device__ inline void finish_softmax(OnlineSoftmax (&rows)[2], i32 warp_row, i32 num_rows,
                                      float* gLse, float (&scales)[2]) {
  constexpr auto kUnshift = bit_cast<float>((127u - static_cast<u32>(kShiftOfP)) << 23);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    rows[half].sum += __shfl_xor_sync(0xFFFFFFFFu, rows[half].sum, 2);
    rows[half].sum += __shfl_xor_sync(0xFFFFFFFFu, rows[half].sum, 1);
    scales[half] =
        is_lost(rows[half]) ? bit_cast<float>(0x7FFFFFFFu) : device::final_scale(rows[half]);
    rows[half].sum *= kUnshift;
  }
  const i32 lane = device::opaque_lane();
  const i32 row = warp_row + 8 * (lane % 2) + lane / 4;
  const OnlineSoftmax own = lane % 2 == 0 ? rows[0] : rows[1];
  if (lane % 4 < 2 && row < num_rows) gLse[row] = device::lse_or_mark(own);
}

// Runs a consumer's work in one warpgroup: what consume() of forward.cuh does, for one work item
// after the other. Like that it is one function on purpose: its parts share all values that
// registers hold.
template <class T, ForwardConfig kConfig>
__device__ void consume_e4m3(const Params& params, const ForwardMaps& maps,
                             const E4m3Pointers<T>& pointers,
                             const ForwardMemory<kConfig>& memory) {
  using namespace device;
  using Named = NamedBarriers<kConfig>;
  constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  constexpr i32 kKeys = kConfig.block_n / 32;      // steps of 32 keys: k of P V
  constexpr i32 kColumns = kConfig.head_dim / 32;  // steps of 32 columns: k of Q K^T
  constexpr i32 kOrderThreads = 2 * kWarpgroup;    // the consumer that waits, and the one before

  const i32 consumer = warp_uniform(static_cast<i32>(threadIdx.x) / kWarpgroup - 1);
  const i32 first_row = 64 * consumer;  // of the tile
  const i32 warp_row =
      first_row + warp_uniform(static_cast<i32>(threadIdx.x) % kWarpgroup / kWarp * 16);
  const bool is_first_thread = threadIdx.x % kWarpgroup == 0;
  if (kConfig.ping_pong && consumer == kConfig.consumers - 1) {
    ptx::barrier_arrive(Named::order(0), kOrderThreads);
  }

  Accumulator<1, 4 * kKeys> rS;
  Accumulator<1, 4 * kColumns> rO;
  constexpr i32 kParts = kConfig.parts_of_pv();
  constexpr i32 kPart = 4 * kColumns / kParts;     // columns of a part, by eights
  Accumulator<1, kConfig.promote ? kPart : 1> rT;  // a part of P V of one tile
  constexpr i32 kPieces = kConfig.pieces_of_pv();
  constexpr i32 kPieceKeys = kKeys / kPieces;  // of a piece, by 32
  FragmentsA<kPieceKeys> rP[kPieces];
  PipelineState q = consumer_start(), k = consumer_start(), v = consumer_start();
  PipelineState stage = consumer_start();  // of the ring of work tiles
  // A step tests for the next K and V as in forward.cuh. Promoted kernels lack registers for that
  // at head_dim 128, and at 64 were not faster without a mask (TUNING.md, e12).
  constexpr bool kPeeks = kConfig.overlap && !kConfig.promote;
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
    const E4m3WorkTile& sE4m3 = memory.e4m3_work_tile(stage.stage);
    const auto rows_of_o = [&] {
      return RowsOfO<T>{.gRows = pointers.gO + sWorkTile.row_offset + warp_row * params.shape.q.row,
                        .stride = params.shape.q.row,
                        .rows = sWorkTile.num_rows - warp_row,
                        .chunks = static_cast<i32>(params.shape.head_dim) / kChunk};
    };
    const auto release_work_tile = [&] {  // once the warp has read all of it
      __syncwarp();
      if (arrives_for_warp(opaque_lane())) memory.work_tile_ring.release(stage);
    };

    const i32 end = warp_uniform(sWorkTile.tiles.end);
    const i32 begin = warp_uniform(sWorkTile.tiles.begin);
    if (begin >= end) {  // rows that see no key
      store_chunks(rows_of_o(), [](i32, i32) { return uint4{0, 0, 0, 0}; });
      const i32 row = warp_row + opaque_lane();
      if (row < min(warp_row + 16, sWorkTile.num_rows)) {
        pointers.gLse[sWorkTile.lse_offset + row] = -kInfinity;
      }
      release_work_tile();
      continue;
    }

    OnlineSoftmax rows[2];
    const float scale_q = sE4m3.scales_log2[consumer];
    TileScales scales = {};  // of the tile in work
    float scale_v = 0.0f;    // of the tile before: O is in units of it; without `promote` of all
    float factors[2];        // of O, for the product in flight
    ScaleD scale_d = ScaleD::zero;
    if constexpr (kConfig.promote) rO.clear();
    memory.q_ring.wait_full(q);
    const KMajor<kTiles.q> sQ(memory.at(kTiles.q_tile(q.stage)), first_row);

    // Starts P V of a piece of keys and a part of V's columns and leaves it in flight; V is the
    // ring's next tile and has arrived. Before it at most other pieces of the part are in flight.
    const auto start_pv = [&](i32 piece, i32 part) {
      const KMajor<kTiles.v> sV(memory.at(kTiles.v_tile(v.stage)), 8 * kPart * part);
      if (!kConfig.promote && piece == 0) fence_operand(rO);
      fence_operand(rP[piece]);
      ptx::wgmma_fence();
      if constexpr (kConfig.promote) {
        start_product<E4m3>(rT, rP[piece], sV, piece == 0 ? ScaleD::zero : ScaleD::one,
                            piece * kPieceKeys);
      } else {
        start_product<E4m3>(rO, rP[piece], sV, scale_d, piece * kPieceKeys);
        scale_d = ScaleD::one;
      }
    };
    const auto end_pv = [&](i32 part) {
      ptx::wgmma_wait_group<0>();
      if constexpr (kConfig.promote) {
        fence_operand(rT);
      } else {
        fence_operand(rO);
      }
#pragma unroll
      for (i32 piece = 0; piece < kPieces; ++piece) fence_operand(rP[piece]);
      if (part == kParts - 1) {
        if (is_first_thread) memory.v_ring.release(v);
        v.advance(kConfig.stages);
      }
      if constexpr (kConfig.promote) promote(rO, kPart * part, rT, factors);
    };

    // Computes S = Q K^T, done when it returns. With `overlap` P V of the tile before is started
    // after it, and still in flight then.
    const auto multiply_qk = [&](auto starts_pv, auto is_ordered) {
      if (!has_k) memory.k_ring.wait_full(k);
      scales = memory.scales(k.stage);  // before S is started: behind it the stage is given back
      if (starts_pv.value && !has_v) memory.v_ring.wait_full(v);
      if constexpr (is_ordered.value) ptx::barrier_sync(Named::order(consumer), kOrderThreads);
      ptx::wgmma_fence();
      start_product<E4m3, kColumns>(rS, sQ, KMajor<kTiles.k>(memory.at(kTiles.k_tile(k.stage)), 0));
      if constexpr (starts_pv.value) start_pv(0, 0);
      ptx::wgmma_wait_group<starts_pv.value ? 1 : 0>();
      fence_operand(rS);
      // The next consumer's turn comes when S is done, not when it is started: else both share the
      // tensor cores, and have their softmax at the same time.
      if constexpr (is_ordered.value) {
        ptx::barrier_arrive(Named::order(next_in_order(consumer, kConfig.consumers)),
                            kOrderThreads);
      }
      // Plain loads have read the scales, and no warp can speak for another's loads.
      __syncwarp();
      if (arrives_for_warp(opaque_lane())) memory.k_ring.release(k);
      k.advance(kConfig.stages);
    };
    const auto apply_mask = [&](i32 tile) {
      const i64 key = static_cast<i64>(tile) * kConfig.block_n;
      if constexpr (kConfig.pattern) {
        for_hidden<1, 4 * kKeys>(sWorkTile.mask, sWorkTile.rows.begin + warp_row, key,
                                 [&](i32 r, i32 c, i32 i) { rS.at[r][c][i] = -kInfinity; });
      } else {
        apply_band_mask<kConfig.left>(sWorkTile, warp_row, tile * kConfig.block_n, rS);
      }
    };
    // Sets `factors`, by which O is multiplied before the tile's P V is added: they follow the
    // maximum, and bring O to the scale of the tile's V.
    const auto take_factors = [&](const float(&raised)[2]) {
      float to_scale_v = 1.0f;
      if constexpr (!kConfig.v_columns) {
        if (scale_v != scales.v) to_scale_v = scale_v * ptx::rcp_approx_ftz_f32(scales.v);
      }
#pragma unroll
      for (i32 half = 0; half < 2; ++half) factors[half] = raised[half] * to_scale_v;
    };

    // Works on one tile of keys as step() of forward.cuh does. P V ends before the mask
    // (kEndsEarly), between it and the exponentials (kEndsBetween) or, promoted, behind those.
    // Without overlap the tile's own P V is computed, by pieces of keys or by parts of columns.
    const auto step = [&](auto is_first, auto is_masked, i32 tile) {
      constexpr bool kIsFirst = is_first.value;
      constexpr bool kOverlaps = kConfig.overlap && !kIsFirst;
      constexpr bool kEndsEarly =
          is_masked.value && (kConfig.pattern || kConfig.promote || kConfig.consumers == 3);
      constexpr bool kEndsBetween = kOverlaps && !kEndsEarly && !kConfig.promote;
      [[maybe_unused]] constexpr bool kEndsBehind = kOverlaps && !kEndsEarly && kConfig.promote;
      constexpr bool kIsOrdered = kConfig.ping_pong && !kIsFirst;
      multiply_qk(BoolConstant<kOverlaps>{}, BoolConstant<kIsOrdered>{});
      if constexpr (kOverlaps && kEndsEarly) end_pv(0);
      if constexpr (is_masked.value) apply_mask(tile);
      const float scale = scale_q * scales.k;
      const TileReferences found =
          raise_references<is_masked.value, !kConfig.promote>(scale, rows, rS, [&] {
            if constexpr (kEndsBetween) end_pv(0);
            peek();
          });
      // Applies the new references to O, while no P V is in flight.
      const auto prepare_o = [&] {
        if constexpr (kConfig.promote) {
          take_factors(found.factors);
        } else if constexpr (!kIsFirst) {
          if (found.raises) scale_rows(rO, found.factors);  // O is finite: V is 448 at the most
        }
        scale_v = scales.v;
      };
      const auto make_p = [&](i32 piece) {
        const i64 first = 4 * kPieceKeys * piece;
        float sums[2];
        exponentiate_rows(rS, {first, first + 4 * kPieceKeys}, scale, found.references, sums);
#pragma unroll
        for (i32 half = 0; half < 2; ++half) {
          const float before = piece == 0 ? rows[half].sum * found.factors[half] : rows[half].sum;
          rows[half].sum = before + sums[half];
        }
      };
      if constexpr (kPieces > 1) {
        prepare_o();
        memory.v_ring.wait_full(v);
#pragma unroll
        for (i32 piece = 0; piece < kPieces; ++piece) {
          make_p(piece);
          round_to_e4m3(rP[piece], rS, 4 * kPieceKeys * piece);
          start_pv(piece, 0);
        }
        end_pv(0);
      } else {
        make_p(0);
        if constexpr (kEndsBehind) {
          // This wait passes at once; its loop ends the basic block, in which ptxas would move the
          // wait for P V above the exponentials. Q's full phase cannot change before each warp has
          // released Q. V's can: one thread releases V for all four warps, and a slow warp would
          // then wait for a phase that has gone by.
          memory.q_ring.wait_full(q);
          end_pv(0);
        }
        prepare_o();
        round_to_e4m3(rP[0], rS);
        if constexpr (!kConfig.overlap) {
          memory.v_ring.wait_full(v);
#pragma unroll
          for (i32 part = 0; part < kParts; ++part) {
            start_pv(0, part);
            end_pv(part);
          }
        }
      }
    };
    // Takes runs of tiles of one class.
    const auto run = [&](auto is_first, auto is_masked, i32 tile, i32 run_begin) {
      do {
        step(is_first, is_masked, tile);
      } while (--tile >= run_begin);
    };
    const auto run_of_class = [&](auto is_first, i32 tile, i32 run_begin) {
      if (warp_uniform(sWorkTile.tiles.template is_partial<kConfig.pattern>(tile))) {
        run(is_first, BoolConstant<true>{}, tile, run_begin);
      } else {
        run(is_first, BoolConstant<false>{}, tile, run_begin);
      }
    };
    const auto tile_before = [&](i32 tile) {
      return kConfig.pattern ? warp_uniform(sWorkTile.tiles.template next<true>(tile)) : tile - 1;
    };
    run_of_class(BoolConstant<true>{}, end - 1, end - 1);
    for (i32 tile = tile_before(end - 1); tile >= begin;) {
      const i32 run_begin = warp_uniform(sWorkTile.tiles.template run_begin<kConfig.pattern>(tile));
      run_of_class(BoolConstant<false>{}, tile, run_begin);
      tile = tile_before(run_begin);
    }
    if (arrives_for_warp(opaque_lane())) memory.q_ring.release(q);
    if constexpr (kConfig.overlap) {
      memory.v_ring.wait_full(v);
      start_pv(0, 0);
    }

    float final_scales[2];
    finish_softmax(rows, warp_row, sWorkTile.num_rows, pointers.gLse + sWorkTile.lse_offset,
                   final_scales);
    if constexpr (kConfig.overlap) end_pv(0);
    if constexpr (!kConfig.v_columns) {
#pragma unroll
      for (i32 half = 0; half < 2; ++half) final_scales[half] *= scale_v;
    }
    scale_rows(rO, final_scales);
    if constexpr (kConfig.v_columns) {
      scale_columns(rO, sE4m3.scales_v, static_cast<i32>(params.shape.head_dim));
    }
    store_o(memory, sWorkTile, maps.o, params.cu_seqlens_q != nullptr, warp_row, rows_of_o(), rO);
    release_work_tile();
    q.advance(kConfig.q_stages);
  }
  // Waits for the last bulk store: shared memory ends with the block.
  if (opaque_lane() == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

template <class T, ForwardConfig kConfig>
__device__ void forward_e4m3(const ForwardSizes& sizes, const ForwardMaps& maps,
                             const E4m3Pointers<T>& pointers) {
  static_assert(kConfig.producer && kConfig.separate_o, "the only form of it");
  extern __shared__ __align__(1024) u8 shared_memory[];
  const ForwardMemory<kConfig> memory(shared_memory);
  if (threadIdx.x == 0) memory.init_rings();
  __syncthreads();
  if (threadIdx.x < device::kWarpgroup) {
    ptx::setmaxnreg_dec<kConfig.producer_registers()>();
    if (threadIdx.x == 0) {
      work(Loader<kConfig>(maps, memory));
    } else if (threadIdx.x == device::kWarp) {
      work(Scheduler<kConfig>(sizes.params, sizes.grid, pointers.entries, pointers.next_item,
                              memory, pointers.scales));
    }
  } else {
    ptx::setmaxnreg_inc<kConfig.consumer_registers()>();
    consume_e4m3<T, kConfig>(sizes.params, maps, pointers, memory);
  }
}

}  // namespace attnlab::v3
