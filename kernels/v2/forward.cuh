// Implements v2's forward on a GPU: FlashAttention-2's work partitioning with mma.sync, cp.async.
//
// Against v1 the loops are swapped. A thread block owns block_m query rows and passes over the
// keys, so O, the row maxima and the row sums never leave registers until they are complete, blocks
// need nothing of each other, and a batch of one still fills the GPU. Inside the block the warps
// split the rows, not the keys: each warp takes its rows past all keys, so a row's maximum and sum
// are in four lanes of one warp, and warps exchange nothing (v1 reduces the partial O that its
// warps have of the same rows). O stays unnormalised until one final scale. Tiles that nobody sees
// are never loaded, and only those on the border of the mask pay for masking.
//
// K and V of the next tiles are on their way (cp.async) while a tile is computed; one barrier a
// tile says both that they have arrived and that all warps are done with the stage to be
// overwritten. With stages = 1, K and V have one place each: V arrives during S = Q K^T, the next K
// during all else, for a second barrier.
//
// O is rescaled only where the maximum has grown by much (kSlack in kernels/device/softmax.cuh).
#pragma once

#include "kernels/device/attend_again.cuh"
#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax.cuh"
#include "kernels/shared/params.h"
#include "kernels/shared/softmax.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// Scores become exp2(softmax_scale_log2 * score - reference), O follows the reference.
template <i32 kRows, i32 kKeys, i32 kColumns>
__device__ void softmax_step(float scale, device::RowStates<kRows>& states,
                             device::Accumulator<kRows, kKeys>& rS,
                             device::Accumulator<kRows, kColumns>& rO) {
  float tile_max[kRows][2];
  bool raises = false;
  device::for_own_rows<kRows>([&](i32 r, i32 half) {
    tile_max[r][half] = device::row_maximum(rS, r, half) * scale;
    raises |= tile_max[r][half] > states.at[r][half].max + device::kSlack;
  });
  if (__any_sync(0xFFFFFFFFu, raises)) {
    device::for_own_rows<kRows>([&](i32 r, i32 half) {
      const float factor = raise_max(states.at[r][half], tile_max[r][half]);
      rO.scale_row(r, half, factor);
    });
  }
  device::for_own_rows<kRows>([&](i32 r, i32 half) {
    OnlineSoftmax& state = states.at[r][half];
    state.sum += device::exponentiate_row(rS, r, half, scale, finite_max(state.max));
  });
}

// Divides O by the sum, once the four lanes of a row have added that up.
template <i32 kRows, i32 kColumns>
__device__ void finish_rows(float keep_scale, device::RowStates<kRows>& states,
                            device::Accumulator<kRows, kColumns>& rO) {
  device::for_own_rows<kRows>([&](i32 r, i32 half) {
    OnlineSoftmax& state = states.at[r][half];
    state.sum += __shfl_xor_sync(0xFFFFFFFFu, state.sum, 2);
    state.sum += __shfl_xor_sync(0xFFFFFFFFu, state.sum, 1);
    device::take_in_output(state, rO.at[r][0][2 * half]);
    rO.scale_row(r, half, device::final_scale(state) * keep_scale);
  });
}

// Stores lse of the warp's rows, and what lse does not hold. Returns whether a row is lost: its
// scores are too large for a P of 16 bits (kernels/shared/softmax.h).
template <i32 kRows>
__device__ bool store_statistics(const ForwardBlock& block, i32 warp_row,
                                 const device::RowStates<kRows>& states, float* gLse,
                                 OnlineSoftmax* gSaved) {
  bool lost = false;
  device::for_rows(states.at, [&](i32 row, const OnlineSoftmax& state) {
    if (warp_row + row >= block.rows.size()) return;
    const i64 place = block.lse_offset + warp_row + row;
    const float row_lse = device::lse_or_mark(state);
    lost |= is_lost(state);
    gLse[place] = row_lse;
    if (gSaved != nullptr && !lse_holds(row_lse)) gSaved[place] = state;
  });
  return lost;
}

// Loads all fragments of the warp's rows.
template <class Tile, i32 kRows, i32 kColumns>
__device__ void load_fragments(const Tile& q, device::FragmentA (&rQ)[kRows][kColumns]) {
#pragma unroll
  for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
    for (i32 k = 0; k < kColumns; ++k) rQ[r][k] = device::fragment_a(q, 16 * r, 16 * k);
  }
}

// Computes S = Q K^T, with Q from registers or shared memory.
template <class T, bool kKeepsQ, i32 kColumns, class TileQ, class FragmentsQ, class TileK,
          i32 kRows, i32 kKeys>
__device__ void multiply_qk(const TileQ& q, const FragmentsQ& rQ, const TileK& keys,
                            device::Accumulator<kRows, kKeys>& rS) {
  rS.clear();
  device::multiply_add<T, kColumns>(
      rS,
      [&](i32 r, i32 k) {
        if constexpr (kKeepsQ) return rQ[r][k];
        return device::fragment_a(q, 16 * r, 16 * k);
      },
      [&](i32 k, i32 c) { return device::fragment_b(keys, 16 * k, 16 * c); });
}

// Returns what block `index` of the grid has to do.
__device__ inline ForwardBlock forward_block(const Params& params, const WorkGrid& grid,
                                             const ForwardConfig& config, const TileEntry* entries,
                                             i64 index) {
  const Shape& shape = params.shape;
  const WorkItem item = work_item(grid, index);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range rows = tile_range(item.block, config.block_m, entry.mask.seqlen_q);
  const i64 first_entry =
      (item.batch * grid.blocks + item.block) * ceil_div<i64>(shape.seqlen_k, config.block_n);
  return {.mask = entry.mask,
          .rows = rows,
          .tiles = make_span(n_block_range(entry.mask, rows, config.block_n),
                             full_n_block_range(entry.mask, rows, config.block_n),
                             entries == nullptr ? nullptr : entries + first_entry),
          .slice = item.batch * shape.num_heads_q + item.head,
          .row_offset = shape.q.offset(item.batch, item.head, entry.first_row + rows.begin),
          .lse_offset = shape.row_statistic_offset(item.batch, item.head, rows.begin),
          .key_offset = shape.k.offset(item.batch, shape.kv_head(item.head), entry.first_key)};
}

// It is long because the loop over tiles of keys stays in it, with the loads: dropout's loop and
// the rows that are lost, as functions of their own, give ptxas another order of instructions.
template <class T, ForwardConfig kConfig>
__device__ void forward(const ForwardArguments<T>& arguments) {
  const Params& params = arguments.params;
  const WorkGrid& grid = arguments.grid;
  const TileEntry* const entries = arguments.entries;
  const auto [gQ, gK, gV, gO, gLse, gSaved] = arguments.tensors;
  using namespace device;
  constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  constexpr i32 kWarpRows = kConfig.block_m / kConfig.warps;
  constexpr i32 kRows = kWarpRows / 16;            // fragments of a warp's rows
  constexpr i32 kKeys = kConfig.block_n / 16;      // fragments of a tile's keys
  constexpr i32 kColumns = kConfig.head_dim / 16;  // fragments of a head
  constexpr i32 kThreads = kConfig.warps * kWarp;
  // At head_dim 128 accumulators leave no registers for the addresses of the next tile, so its
  // loads start after Q K^T (2 to 5 % faster). Else they start before it (at 96 2 to 5 % faster).
  constexpr bool kLoadsLate = kConfig.stages > 1 && kConfig.head_dim == 128;

  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 shared = ptx::cvta_to_shared(shared_memory);
  const auto at = [&](i32 offset) { return shared + static_cast<u32>(offset); };
  const u32 sQ = at(kTiles.q_tile());
  auto& sBlock = *reinterpret_cast<ForwardBlock*>(shared_memory + kTiles.block());

  // One thread finds the block's rows, and which key tiles they see.
  const Shape& shape = params.shape;
  if (threadIdx.x == 0) sBlock = forward_block(params, grid, kConfig, entries, blockIdx.x);
  __syncthreads();
  if (sBlock.rows.empty()) return;  // a packed entry shorter than the longest
  const i32 head_dim = static_cast<i32>(shape.head_dim);
  const auto load = [&](const T* gKeys, i32 block, i32 tile) {  // of K or V
    const i32 first = block * kConfig.block_n;
    const i32 valid = static_cast<i32>(sBlock.mask.valid_k) - first;
    load_tile<kTiles.kv, kThreads>(gKeys + sBlock.key_offset + first * shape.k.row, shape.k.row,
                                   valid, head_dim, at(tile));
  };

  // The warp owns these rows of the tile.
  const i32 warp = static_cast<i32>(threadIdx.x) / kWarp;
  const i32 warp_row = warp * kWarpRows;
  device::RowStates<kRows> states;
  Accumulator<kRows, 2 * kColumns> rO;  // (warp_rows, head_dim)
  rO.clear();

  const KMajorA<kTiles.q> q(sQ, warp_row, 0);
  FragmentA rQ[kRows][kConfig.keeps_q ? kColumns : 1];

  // Starts loads of all stages but the one that is computed next; with one stage, of K alone.
  load_tile<kTiles.q, kThreads>(gQ + sBlock.row_offset, shape.q.row,
                                static_cast<i32>(sBlock.rows.size()), head_dim, sQ);
  i32 ahead = sBlock.tiles.begin;
  const auto load_ahead = [&](i32 stage) {
    if (ahead < sBlock.tiles.end) {
      load(gK, ahead, kTiles.k_tile(stage));
      load(gV, ahead, kTiles.v_tile(stage));
      ahead = sBlock.tiles.not_empty(ahead + 1);
    }
    ptx::cp_async_commit_group();  // also an empty one: groups are counted
  };
#pragma unroll
  for (i32 stage = 0; stage < kConfig.stages - 1; ++stage) load_ahead(stage);
  if constexpr (kConfig.stages == 1) {
    if (ahead < sBlock.tiles.end) load(gK, ahead, kTiles.k_tile(0));
    ptx::cp_async_commit_group();
  }

  i32 stage = 0;
  for (i32 block = sBlock.tiles.begin; block < sBlock.tiles.end;
       block = kConfig.stages == 1 ? ahead : sBlock.tiles.not_empty(block + 1)) {
    ptx::cp_async_wait_group<max(0, kConfig.stages - 2)>();
    __syncthreads();  // the tile is there for all, and all are done with the one before
    if constexpr (kConfig.stages == 1) {
      load(gV, block, kTiles.v_tile(0));
      ptx::cp_async_commit_group();
    } else if constexpr (!kLoadsLate) {
      load_ahead(stage == 0 ? kConfig.stages - 1 : stage - 1);
    }

    if constexpr (kConfig.keeps_q) {
      if (block == sBlock.tiles.begin) load_fragments(q, rQ);
    }
    const KMajorB<kTiles.kv> keys(at(kTiles.k_tile(stage)), 0, 0);
    Accumulator<kRows, 2 * kKeys> rS;  // (warp_rows, block_n)
    multiply_qk<T, kConfig.keeps_q, kColumns>(q, rQ, keys, rS);
    if constexpr (kConfig.stages == 1) {
      ptx::cp_async_wait_group<0>();
      __syncthreads();  // V is there for all, and all are done with K
      ahead = sBlock.tiles.not_empty(block + 1);
      if (ahead < sBlock.tiles.end) load(gK, ahead, kTiles.k_tile(0));
      ptx::cp_async_commit_group();
    }
    if constexpr (kLoadsLate) load_ahead(stage == 0 ? kConfig.stages - 1 : stage - 1);
    const i64 first_key = static_cast<i64>(block) * kConfig.block_n;
    if (sBlock.tiles.is_partial(block)) {
      for_hidden<kRows, 2 * kKeys>(sBlock.mask, sBlock.rows.begin + warp_row, first_key,
                                   [&](i32 r, i32 c, i32 i) { rS.at[r][c][i] = -kInfinity; });
    }
    softmax_step(shape.softmax_scale_log2, states, rS, rO);  // P = exp(S - max)
    if constexpr (kConfig.dropout) {
      for_blocks<kRows, kKeys>([&](i32 r, i32 c) {
        const i64 row = sBlock.rows.begin + warp_row + 16 * r;
        clear_dropped(rS, r, c, kept_bits(params.dropout, sBlock.slice, row, first_key + 16 * c));
      });
    }
    const MnMajorB<kTiles.kv> values(at(kTiles.v_tile(stage)), 0, 0);
    multiply_add_rounded<T>(rO, rS, values);  // O += P V
    stage = stage + 1 == kConfig.stages ? 0 : stage + 1;
  }

  // Divides O by the sum, and stores lse.
  finish_rows(params.dropout.keep_scale, states, rO);
  const bool lost = store_statistics(sBlock, warp_row, states, gLse, gSaved);
  // O goes out through the warp's own rows of Q, which no other warp reads.
  ptx::cp_async_wait_group<0>();
  __syncthreads();  // rows that see no key have not waited yet for Q, which all threads load
  store_accumulator<T, kTiles.q>(rO, sQ, warp_row, 0);
  __syncwarp();
  const i32 exist = static_cast<i32>(min<i64>(kWarpRows, sBlock.rows.size() - warp_row));
  store_rows<kTiles.q, kWarpRows>(shared_memory, warp_row, exist,
                                  gO + sBlock.row_offset + warp_row * shape.q.row, shape.q.row,
                                  head_dim);
  if (!__any_sync(0xFFFFFFFFu, lost)) return;
  __syncwarp();  // O of the tile is stored, and all marks
  const i64 batch = sBlock.slice / shape.num_heads_q, head = sBlock.slice % shape.num_heads_q;
  const Range rows = {sBlock.rows.begin + warp_row, sBlock.rows.begin + warp_row + exist};
  attend_again<Scores::by_mma_sync>(params, batch, head, rows, 1, gQ, gK, gV, gO, gLse,
                                    [&](i64 row, const OnlineSoftmax& state) {
                                      if (gSaved == nullptr) return;
                                      gSaved[shape.row_statistic_offset(batch, head, row)] = state;
                                    });
}

}  // namespace attnlab::v2
