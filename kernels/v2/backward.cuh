// v2's backward on a GPU: FlashAttention-2's Algorithm 2 with mma.sync and cp.async.
//
// Against v1 a thread block owns one tile of keys for good, so blocks run side by side along the
// keys, and dK and dV never leave registers until they are complete. Only dQ belongs to somebody
// else: it is summed in fp32 in device memory, by atomic additions in whatever order the blocks
// come, or, deterministic, in turns by descending keys: under a causal mask or a window the first
// rows that a tile of keys meets are then those whose turns begin with it, so that all blocks go on
// side by side; by ascending keys each would wait for the last step of its neighbour. Four kernels:
// prepare_rows (delta = rowsum(dO * O), clears the sums), backward, backward_from_saved, which has
// something to do only where logits are so large that lse, one fp32 number, does not hold them, and
// finish_rows (sums to dQ).
//
// Scores are kept transposed, keys x rows. Then P^T and dS^T, which dV += P^T dO and dK += dS^T Q
// take as A, lie in registers just as the tensor cores want them. Where a warp has all
// rows of its keys (p_in_registers) they go from one product into the next without being stored;
// only dS passes through shared memory, for dQ += dS K, whose rows are spread over all warps. Where
// tiles of dK and dV are too large for that, P and dS both are shared, and warps divide each
// product anew.
//
// The sums of dQ lie as the tensor cores leave them, four values of a lane side by side: a warp
// adds 512 consecutive bytes with one instruction, and finish_rows, which has the same warps, is
// the only other one who must know.
#pragma once

#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax.cuh"
#include "kernels/device/warp_part.cuh"
#include "kernels/ptx/acquire_release.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/red.cuh"
#include "kernels/shared/params.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// Which warp has which part of the products.
template <BackwardConfig kConfig>
struct BackwardParts {
  static constexpr WarpGrid kScores =
      kConfig.p_in_registers ? WarpGrid{kConfig.warps, 1}
                             : warp_grid(kConfig.warps, kConfig.block_n, kConfig.block_m);
  static constexpr WarpGrid kKeys =
      kConfig.p_in_registers ? kScores
                             : warp_grid(kConfig.warps, kConfig.block_n, kConfig.head_dim);
  static constexpr WarpGrid kRows = warp_grid(kConfig.warps, kConfig.block_m, kConfig.head_dim);
  using Scores = device::WarpPart<kScores, kConfig.block_n, kConfig.block_m>;  // S^T, dP^T
  using Keys = device::WarpPart<kKeys, kConfig.block_n, kConfig.head_dim>;     // dK, dV
  using Rows = device::WarpPart<kRows, kConfig.block_m, kConfig.head_dim>;     // dQ
};

// Of the tile of rows m_block of a slice.
template <BackwardConfig kConfig>
__device__ float* dq_sums_of(const BackwardWorkspace& workspace, i64 tile) {
  return workspace.dq_sums + tile * kConfig.block_m * kConfig.head_dim;
}

// delta of a tile of rows, and whether lse holds the logits of all of them; its sums of dQ become
// zero, and the first turn at them is that of the last tile of keys that the rows see. Eight lanes
// a row.
template <class T, BackwardConfig kConfig>
__device__ void prepare_rows(const PrepareArguments<T>& arguments) {
  const Params& params = arguments.params;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  const auto [gO, gDO, gLse] = arguments.tensors;
  using namespace device;
  constexpr i32 kLanes = 8;
  constexpr i32 kThreads = kConfig.warps * kWarp;
  const Shape& shape = params.shape;
  const i32 thread = static_cast<i32>(threadIdx.x);
  if (workspace.turns != nullptr && blockIdx.x == 0 && thread < 2) workspace.tickets[thread] = 0;
  const WorkItem item = work_item(grid, blockIdx.x);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range rows = tile_range(item.block, kConfig.block_m, entry.mask.seqlen_q);
  const i64 tile = (item.batch * shape.num_heads_q + item.head) * grid.blocks + item.block;
  if (rows.empty()) {
    if (thread == 0) workspace.beyond_lse[tile] = 0;
    return;
  }

  const i32 chunks = static_cast<i32>(shape.head_dim) / kChunk;
  for (i64 first = rows.begin; first < rows.end; first += kThreads / kLanes) {
    const i64 row = first + thread / kLanes;
    const bool exists = row < rows.end;
    const i64 offset = shape.q.offset(item.batch, item.head, entry.first_row + row);
    float sum = 0.0f;
    for (i32 chunk = thread % kLanes; exists && chunk < chunks; chunk += kLanes) {
      const Values o = decode(load_chunk(gO + offset + chunk * kChunk));
      const Values dO = decode(load_chunk(gDO + offset + chunk * kChunk));
#pragma unroll
      for (i32 i = 0; i < kChunk; ++i) sum += o.at[i] * dO.at[i];
    }
#pragma unroll
    for (i32 distance = kLanes / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
    }
    if (exists && thread % kLanes == 0) {
      workspace.delta[shape.row_statistic_offset(item.batch, item.head, row)] = sum;
    }
  }

  auto* const sums = reinterpret_cast<float4*>(dq_sums_of<kConfig>(workspace, tile));
  for (i32 i = thread; i < kConfig.block_m * kConfig.head_dim / 4; i += kThreads) {
    sums[i] = {0.0f, 0.0f, 0.0f, 0.0f};
  }
  const float* const gTile = gLse + shape.row_statistic_offset(item.batch, item.head, rows.begin);
  bool beyond_lse = false;
  for (i32 row = thread; row < static_cast<i32>(rows.size()); row += kThreads) {
    beyond_lse |= !lse_holds(gTile[row]);
  }
  beyond_lse = any_of_block(beyond_lse);
  if (thread == 0) workspace.beyond_lse[tile] = beyond_lse ? 1 : 0;
  if (workspace.turns != nullptr && thread == 0) {
    const i64 last = ceil_div<i64>(shape.seqlen_k, kConfig.block_n) - 1;
    workspace.turns[tile] =
        static_cast<i32>(previous_n_block(entry.mask, rows, kConfig.block_n, last));
  }
}

// What block `index` of the grid has to do.
__device__ inline BackwardBlock backward_block(const Params& params, const WorkGrid& grid,
                                               const BackwardConfig& config,
                                               const BackwardWorkspace& workspace, i64 index) {
  const Shape& shape = params.shape;
  const WorkItem item = work_item(grid, index);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range keys = tile_range(item.block, config.block_n, entry.mask.seqlen_k);
  const bool all_exist = (item.block + 1) * config.block_n <= entry.mask.valid_k;
  const i64 heads = shape.sharing();
  const i64 first_tile =
      (item.batch * grid.blocks + item.block) * ceil_div<i64>(shape.seqlen_q, config.block_m);
  return {
      .mask = entry.mask,
      .keys = keys,
      .tiles = make_span(m_block_range(entry.mask, keys, config.block_m),
                         all_exist ? full_m_block_range(entry.mask, keys, config.block_m) : Range{},
                         workspace.entries == nullptr ? nullptr : workspace.entries + first_tile),
      .turn_after = workspace.turn_after == nullptr ? nullptr : workspace.turn_after + first_tile,
      .n_block = static_cast<i32>(item.block),
      .heads = static_cast<i32>(heads),
      .first_head = item.batch * shape.num_heads_q + item.head * heads,
      .row_offset = shape.q.offset(item.batch, item.head * heads, entry.first_row),
      .key_offset = shape.k.offset(item.batch, item.head, entry.first_key + keys.begin)};
}

// What a step of the main loop works on: a tile of rows of one of the query heads that share the
// block's K and V.
struct BackwardStep {
  i32 m_block = 0;
  i32 head = 0;

  static __device__ BackwardStep first(const BackwardBlock& block) {
    return {block.tiles.begin, block.tiles.begin < block.tiles.end ? 0 : block.heads};
  }
  __device__ bool exists(const BackwardBlock& block) const { return head < block.heads; }
  __device__ void advance(const BackwardBlock& block) {
    m_block = block.tiles.not_empty(m_block + 1);
    if (m_block < block.tiles.end) return;
    m_block = block.tiles.begin;
    ++head;
  }
};

// Adds a warp's part of dQ to the sums of a tile, in any order.
template <class Part>
__device__ void add_dq(const typename Part::Accumulator& rDQ, float* gSums) {
#pragma unroll
  for (i32 r = 0; r < Part::kOwnRows / 16; ++r) {
#pragma unroll
    for (i32 c = 0; c < Part::kOwnColumns / 8; ++c) {
      ptx::red_add_v4_f32(gSums + device::accumulator_offset<Part>(r, c), rDQ.at[r][c]);
    }
  }
}

// The same when it is this block's turn. The semaphore names the tile of keys whose turn it is.
template <class Part>
__device__ void add_dq_in_turn(const typename Part::Accumulator& rDQ, float* gSums, i32* semaphore,
                               i32 own, i32 next) {
  if (threadIdx.x == 0) {
    while (ptx::ld_acquire_gpu_global(semaphore) != own) __nanosleep(100);
  }
  __syncthreads();
#pragma unroll
  for (i32 r = 0; r < Part::kOwnRows / 16; ++r) {
#pragma unroll
    for (i32 c = 0; c < Part::kOwnColumns / 8; ++c) {
      float4* const place =
          reinterpret_cast<float4*>(gSums + device::accumulator_offset<Part>(r, c));
      float4 sum = __ldcg(place);  // the L1 may have what it was before the others' turns
      sum.x += rDQ.at[r][c][0];
      sum.y += rDQ.at[r][c][1];
      sum.z += rDQ.at[r][c][2];
      sum.w += rDQ.at[r][c][3];
      __stcg(place, sum);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) ptx::st_release_gpu_global(semaphore, next);
}

// The number of a block's next tile of keys. Where turns are taken, tiles are numbered as they are
// begun, so that nobody waits for one that has not been.
template <BackwardConfig kConfig>
__device__ i64 next_tile(const BackwardWorkspace& workspace, i32 kernel, i64 own) {
  if (workspace.turns == nullptr) return own;
  extern __shared__ __align__(128) u8 shared_memory[];
  u32& sTicket = *reinterpret_cast<u32*>(shared_memory + backward_tiles(kConfig).block());
  if (threadIdx.x == 0) sTicket = atomicAdd(workspace.tickets + kernel, 1u);
  __syncthreads();
  const u32 ticket = sTicket;
  __syncthreads();  // all have read it
  return ticket;
}

// Whether lse does not hold the logits of one of the heads of a tile of keys. The first warp has
// other work meanwhile.
template <BackwardConfig kConfig>
__device__ bool is_beyond_lse(const Shape& shape, const WorkGrid& grid,
                              const BackwardWorkspace& workspace, i64 index) {
  constexpr i32 kThreads = (kConfig.warps - 1) * device::kWarp;
  const WorkItem item = work_item(grid, index);
  const i64 heads = shape.sharing();
  const i64 row_tiles = ceil_div<i64>(shape.seqlen_q, kConfig.block_m);
  const i32* const of_heads =
      workspace.beyond_lse + (item.batch * shape.num_heads_q + item.head * heads) * row_tiles;
  bool beyond_lse = false;
  for (i64 i = static_cast<i32>(threadIdx.x) - device::kWarp; i < heads * row_tiles;
       i += kThreads) {
    if (i >= 0) beyond_lse |= of_heads[i] != 0;
  }
  return beyond_lse;
}

// dK and dV of a tile of keys, and its part of dQ, if it is this kernel that has its heads: the one
// that computes P from lse, or the one that computes it from what the forward saved.
template <class T, BackwardConfig kConfig, bool kFromSaved>
__device__ void backward_of_keys(const BackwardArguments<T>& arguments, i64 index) {
  const Params& params = arguments.params;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  const auto [gQ, gK, gV, gDO, gLse, gDK, gDV, gSaved] = arguments.tensors;
  using namespace device;
  using Parts = BackwardParts<kConfig>;
  using Scores = typename Parts::Scores;
  using Keys = typename Parts::Keys;
  using Rows = typename Parts::Rows;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kThreads = kConfig.warps * kWarp;
  // Rows that a warp takes at once: all of its part, or, where it has all rows or needs registers
  // for what was saved, some of them.
  constexpr i32 kSlice = kFromSaved               ? 16
                         : kConfig.p_in_registers ? slice_rows(kConfig.block_m)
                                                  : Scores::kOwnColumns;
  using Slice = Accumulator<Scores::kOwnRows / 16, kSlice / 8>;
  static_assert(Scores::kOwnColumns % kSlice == 0, "a warp takes its rows in whole slices");
  static_assert(kConfig.stages == 2, "Q and dO of the next step arrive during a step");

  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 shared = ptx::cvta_to_shared(shared_memory);
  const auto at = [&](i32 offset) { return shared + static_cast<u32>(offset); };
  const u32 sK = at(kTiles.k()), sV = at(kTiles.v()), sDS = at(kTiles.ds());
  auto& sBlock = *reinterpret_cast<BackwardBlock*>(shared_memory + kTiles.block());

  // Which keys the block has, and which tiles of rows see them.
  const Shape& shape = params.shape;
  bool beyond_lse = false;
  if (threadIdx.x == 0) sBlock = backward_block(params, grid, kConfig, workspace, index);
  if (threadIdx.x >= kWarp) beyond_lse = is_beyond_lse<kConfig>(shape, grid, workspace, index);
  if (any_of_block(beyond_lse) != kFromSaved) return;
  if (sBlock.keys.empty()) return;  // a packed entry shorter than the longest
  const i32 head_dim = static_cast<i32>(shape.head_dim);
  const auto load_rows = [&](const BackwardStep& step, i32 stage) {
    const i32 first = step.m_block * kConfig.block_m;
    const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first;
    const i64 offset = sBlock.row_offset + step.head * shape.q.head + first * shape.q.row;
    load_tile<kTiles.q, kThreads>(gQ + offset, shape.q.row, exist, head_dim,
                                  at(kTiles.q_of(stage)));
    load_tile<kTiles.q, kThreads>(gDO + offset, shape.q.row, exist, head_dim,
                                  at(kTiles.dout_of(stage)));
    const i64 statistics = (sBlock.first_head + step.head) * shape.seqlen_q + first;
    for (i32 row = static_cast<i32>(threadIdx.x); row < kConfig.block_m; row += kThreads) {
      const u32 bytes = row < exist ? 4 : 0;
      ptx::cp_async_ca_4(at(kTiles.lse_of(stage) + 4 * row), gLse + statistics + row, bytes);
      ptx::cp_async_ca_4(at(kTiles.delta_of(stage) + 4 * row), workspace.delta + statistics + row,
                         bytes);
    }
  };

  typename Keys::Accumulator rDK, rDV;  // (own keys, own columns)
  rDK.clear();
  rDV.clear();
  BackwardStep step = BackwardStep::first(sBlock);
  if (step.exists(sBlock)) {
    const i32 valid = static_cast<i32>(sBlock.mask.valid_k - sBlock.keys.begin);
    load_tile<kTiles.kv, kThreads>(gK + sBlock.key_offset, shape.k.row, valid, head_dim, sK);
    load_tile<kTiles.kv, kThreads>(gV + sBlock.key_offset, shape.k.row, valid, head_dim, sV);
    load_rows(step, 0);
  }
  ptx::cp_async_commit_group();
  for (i32 stage = 0; step.exists(sBlock); step.advance(sBlock), stage ^= 1) {
    ptx::cp_async_wait_group<0>();
    __syncthreads();  // the rows are there for all, and all are done with the step before
    BackwardStep ahead = step;
    ahead.advance(sBlock);
    if (ahead.exists(sBlock)) load_rows(ahead, stage ^ 1);
    ptx::cp_async_commit_group();
    const u32 sQ = at(kTiles.q_of(stage)), sDO = at(kTiles.dout_of(stage));
    const i32 first_row = step.m_block * kConfig.block_m;

#pragma unroll 1
    for (i32 slice = 0; slice < Scores::kOwnColumns / kSlice; ++slice) {
      const i32 own_row = Scores::column() + slice * kSlice;  // within the tile
      Slice rP, rDS;                                          // (own keys, slice)
      const auto multiply_transposed = [&](u32 left, u32 right, Slice& sums) {
        const TileA<kTiles.kv> lefts(left, Scores::row(), 0);
        const TileBTransposed<kTiles.q> rights(right, own_row, 0);
        sums.clear();
        multiply_add<T, kConfig.head_dim / 16>(
            sums, [&](i32 r, i32 k) { return fragment_a(lefts, 16 * r, 16 * k); },
            [&](i32 k, i32 c) { return fragment_b(rights, 16 * k, 16 * c); });
      };
      multiply_transposed(sV, sDO, rDS);  // dP^T = V dO^T
      multiply_transposed(sK, sQ, rP);    // S^T = K Q^T
      const i32 lane = kFromSaved ? opaque_lane() : static_cast<i32>(threadIdx.x) % kWarp;
      const i32 lane_row = own_row + 2 * (lane % 4);  // of its pairs
      if constexpr (kFromSaved) {                     // P^T = exp(S^T - max) / sum
        const auto* const sLse =
            reinterpret_cast<const float*>(shared_memory + kTiles.lse_of(stage)) + lane_row;
        const i64 statistics = (sBlock.first_head + step.head) * shape.seqlen_q + first_row;
        const OnlineSoftmax* const gOwn = gSaved + statistics + lane_row;
        const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row - lane_row;
        recompute_p(rP, shape.softmax_scale_log2, [&](i32 row) {
          return row < exist ? softmax_of_row(sLse[row], gOwn + row) : OnlineSoftmax{};
        });
      } else {
#pragma unroll
        for (i32 c = 0; c < kSlice / 8; ++c) {  // P^T = exp(S^T - lse)
          const float2 lse = *reinterpret_cast<const float2*>(shared_memory + kTiles.lse_of(stage) +
                                                              4 * (lane_row + 8 * c));
          const float references[2] = {lse.x * kLog2E, lse.y * kLog2E};
#pragma unroll
          for (i32 r = 0; r < Scores::kOwnRows / 16; ++r) {
#pragma unroll
            for (i32 i = 0; i < 4; ++i) {
              rP.at[r][c][i] = ptx::ex2_approx_ftz_f32(
                  fmaf(rP.at[r][c][i], shape.softmax_scale_log2, -references[i % 2]));
            }
          }
        }
      }
      if (sBlock.tiles.is_partial(step.m_block)) {
        for_hidden_transposed<Scores::kOwnRows / 16, kSlice / 8>(
            sBlock.mask, first_row + own_row, sBlock.keys.begin + Scores::row(),
            [&](i32 r, i32 c, i32 i) { rP.at[r][c][i] = 0.0f; });
      }
      // dS^T = P^T (Z dP^T - delta)
#pragma unroll
      for (i32 c = 0; c < kSlice / 16; ++c) {
        float2 deltas[2];
#pragma unroll
        for (i32 half = 0; half < 2; ++half) {
          deltas[half] = *reinterpret_cast<const float2*>(shared_memory + kTiles.delta_of(stage) +
                                                          4 * (lane_row + 16 * c + 8 * half));
        }
#pragma unroll
        for (i32 r = 0; r < Scores::kOwnRows / 16; ++r) {
          u32 kept = 0xFF;
          if constexpr (kConfig.dropout) {
            kept = kept_bits_transposed(params.dropout, sBlock.first_head + step.head,
                                        first_row + own_row + 16 * c,
                                        sBlock.keys.begin + Scores::row() + 16 * r);
          }
          differentiate<kConfig.dropout>(rP, rDS, r, c, deltas, kept, params.dropout.keep_scale);
        }
      }
      if constexpr (kConfig.p_in_registers) {
        const TileB<kTiles.q> dO(sDO, own_row, 0);
        const TileB<kTiles.q> q(sQ, own_row, 0);
        multiply_add<T, kSlice / 16>(  // dV += P^T dO
            rDV, [&](i32 r, i32 k) { return fragment_a<T>(rP, r, k); },
            [&](i32 k, i32 c) { return fragment_b(dO, 16 * k, 16 * c); });
        store_accumulator<T, kTiles.p>(rDS, sDS, Scores::row(), own_row);
        multiply_add<T, kSlice / 16>(  // dK += dS^T Q
            rDK, [&](i32 r, i32 k) { return fragment_a<T>(rDS, r, k); },
            [&](i32 k, i32 c) { return fragment_b(q, 16 * k, 16 * c); });
      } else {
        store_accumulator<T, kTiles.p>(rP, at(kTiles.p_shared()), Scores::row(), own_row);
        store_accumulator<T, kTiles.p>(rDS, sDS, Scores::row(), own_row);
      }
    }
    __syncthreads();  // dS (and P) of all warps

    if constexpr (!kConfig.p_in_registers) {
      const auto multiply_shared = [&](u32 left, u32 right, typename Keys::Accumulator& sums) {
        const TileA<kTiles.p> lefts(left, Keys::row(), 0);
        const TileB<kTiles.q> rights(right, 0, Keys::column());
        multiply_add<T, kConfig.block_m / 16>(
            sums, [&](i32 r, i32 k) { return fragment_a(lefts, 16 * r, 16 * k); },
            [&](i32 k, i32 c) { return fragment_b(rights, 16 * k, 16 * c); });
      };
      multiply_shared(at(kTiles.p_shared()), sDO, rDV);  // dV += P^T dO
      multiply_shared(sDS, sQ, rDK);                     // dK += dS^T Q
    }
    typename Rows::Accumulator rDQ;  // (own rows, own columns)
    rDQ.clear();
    const TileATransposed<kTiles.p> ds(sDS, 0, Rows::row());
    const TileB<kTiles.kv> k_columns(sK, 0, Rows::column());
    multiply_add<T, kConfig.block_n / 16>(  // dQ = dS K
        rDQ, [&](i32 r, i32 k) { return fragment_a(ds, 16 * r, 16 * k); },
        [&](i32 k, i32 c) { return fragment_b(k_columns, 16 * k, 16 * c); });
    const i64 m_blocks = ceil_div<i64>(shape.seqlen_q, kConfig.block_m);
    const i64 tile = (sBlock.first_head + step.head) * m_blocks + step.m_block;
    float* const gSums = dq_sums_of<kConfig>(workspace, tile);
    if (workspace.turns != nullptr) {
      const i32 next =
          sBlock.turn_after == nullptr ? sBlock.n_block - 1 : sBlock.turn_after[step.m_block];
      add_dq_in_turn<Rows>(rDQ, gSums, workspace.turns + tile, sBlock.n_block, next);
    } else {
      add_dq<Rows>(rDQ, gSums);
    }
  }

  // dK and dV by way of the tiles of K and V.
  __syncthreads();  // all are done with them
  rDK.scale(shape.softmax_scale);
  rDV.scale(params.dropout.keep_scale);
  store_accumulator<T, kTiles.kv>(rDK, sK, Keys::row(), Keys::column());
  store_accumulator<T, kTiles.kv>(rDV, sV, Keys::row(), Keys::column());
  __syncthreads();
  constexpr i32 kWarpRows = kConfig.block_n / kConfig.warps;
  const i32 own = static_cast<i32>(threadIdx.x) / kWarp * kWarpRows;
  const i32 exist = static_cast<i32>(min<i64>(kWarpRows, sBlock.keys.size() - own));
  const i64 offset = sBlock.key_offset + own * shape.k.row;
  store_rows<kTiles.kv, kWarpRows>(shared_memory + kTiles.k(), own, exist, gDK + offset,
                                   shape.k.row, head_dim);
  store_rows<kTiles.kv, kWarpRows>(shared_memory + kTiles.v(), own, exist, gDV + offset,
                                   shape.k.row, head_dim);
}

template <class T, BackwardConfig kConfig>
__device__ void backward(const BackwardArguments<T>& arguments) {
  backward_of_keys<T, kConfig, false>(arguments,
                                      next_tile<kConfig>(arguments.workspace, 0, blockIdx.x));
}

// A block has one tile of keys after another, since there is seldom any.
template <class T, BackwardConfig kConfig>
__device__ void backward_from_saved(const BackwardArguments<T>& arguments) {
  const Shape& shape = arguments.params.shape;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  const i64 row_tiles =
      grid.batch * shape.num_heads_q * ceil_div<i64>(shape.seqlen_q, kConfig.block_m);
  bool beyond_lse = false;
  for (i64 i = threadIdx.x; i < row_tiles; i += kConfig.warps * device::kWarp) {
    beyond_lse |= workspace.beyond_lse[i] != 0;
  }
  if (!device::any_of_block(beyond_lse)) return;
  for (i64 own = blockIdx.x;; own += gridDim.x) {
    const i64 index = next_tile<kConfig>(workspace, 1, own);
    if (index >= work_items(grid)) return;
    backward_of_keys<T, kConfig, true>(arguments, index);
    __syncthreads();  // all are done with shared memory
  }
}

// dQ = softmax_scale * sum, of a tile of rows.
template <class T, BackwardConfig kConfig>
__device__ void finish_rows(const FinishArguments<T>& arguments) {
  const Params& params = arguments.params;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  T* const gDQ = arguments.gDQ;
  using namespace device;
  using Part = typename BackwardParts<kConfig>::Rows;
  constexpr TileShape kTile = backward_tiles(kConfig).q;
  extern __shared__ __align__(128) u8 shared_memory[];
  const Shape& shape = params.shape;
  const WorkItem item = work_item(grid, blockIdx.x);
  const BatchEntry entry = batch_entry(params, item.batch);
  const Range rows = tile_range(item.block, kConfig.block_m, entry.mask.seqlen_q);
  if (rows.empty()) return;

  const i64 tile = (item.batch * shape.num_heads_q + item.head) * grid.blocks + item.block;
  const float* const gSums = dq_sums_of<kConfig>(workspace, tile);
  typename Part::Accumulator rDQ;
#pragma unroll
  for (i32 r = 0; r < Part::kOwnRows / 16; ++r) {
#pragma unroll
    for (i32 c = 0; c < Part::kOwnColumns / 8; ++c) {
      const auto sum =
          *reinterpret_cast<const float4*>(gSums + device::accumulator_offset<Part>(r, c));
      const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
      for (i32 i = 0; i < 4; ++i) rDQ.at[r][c][i] = sums[i] * shape.softmax_scale;
    }
  }
  store_accumulator<T, kTile>(rDQ, ptx::cvta_to_shared(shared_memory), Part::row(), Part::column());
  __syncthreads();
  constexpr i32 kWarpRows = kConfig.block_m / kConfig.warps;
  const i32 own = static_cast<i32>(threadIdx.x) / kWarp * kWarpRows;
  const i32 exist = static_cast<i32>(min<i64>(kWarpRows, rows.size() - own));
  const i64 offset = shape.q.offset(item.batch, item.head, entry.first_row + rows.begin + own);
  store_rows<kTile, kWarpRows>(shared_memory, own, exist, gDQ + offset, shape.q.row,
                               static_cast<i32>(shape.head_dim));
}

}  // namespace attnlab::v2
