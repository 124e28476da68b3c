// v1's backward on a GPU: FlashAttention's Algorithm 4 with mma.sync and cp.async. Line numbers are
// its own.
//
// Against naive, P is computed again from Q, K and what the forward saved of the softmax, m and l.
// A thread block has one (batch, K/V head): outside it passes over tiles of keys, whose dK and dV
// are summed in registers; inside over the query rows that see them, of all query heads that share
// the K/V head. dQ belongs to the rows, which every tile of keys meets anew: in fp32 it comes from
// device memory at each step and goes back there (not at a row's first visit). Nobody else adds to
// it, so there are no atomics, and the order is fixed. D = rowsum(dO * O) is computed at every step
// from O, as the paper has it; v2 does it once, and gives the tiles of keys to different blocks.
//
// Scores are kept transposed, keys x rows, each warp having keys of its own; P and dS of all warps
// meet in shared memory, where the three products that follow are divided anew.
#pragma once

#include "kernels/device/fragments.cuh"
#include "kernels/device/warp_part.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v1/row_visits.cuh"

namespace attnlab::v1 {

// Which warp has which part of the products.
template <BackwardConfig kConfig>
struct BackwardParts {
  static constexpr i32 kKeys = kConfig.block_n, kRows = kConfig.block_m, kDim = kConfig.head_dim;
  using Scores =
      device::WarpPart<warp_grid(kBackwardWarps, kKeys, kRows), kKeys, kRows>;         // S^T, dP^T
  using Keys = device::WarpPart<warp_grid(kBackwardWarps, kKeys, kDim), kKeys, kDim>;  // dK, dV
  using Rows = device::WarpPart<warp_grid(kBackwardWarps, kRows, kDim), kRows, kDim>;  // dQ
};

// A step of the inner loop: a tile of rows of one of the query heads.
struct BackwardStep {
  i32 m_block = 0;
  i32 head = 0;

  __device__ BackwardStep next(const TileSpan& tiles) const {
    const i32 below = tiles.not_empty(m_block + 1);
    return below < tiles.end ? BackwardStep{below, head} : BackwardStep{tiles.begin, head + 1};
  }
};

// Lines 13 and 19 for the rows of a step: lse from m and l, in units of log2, and D = rowsum(dO *
// O). Four lanes a row. Rows that saw nothing get an lse of infinity, and with it P = 0.
template <BackwardConfig kConfig, class T>
__device__ void row_statistics(u8* shared_memory, i32 stage) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kLanes = 4;
  const auto floats = [&](i32 offset) { return reinterpret_cast<float*>(shared_memory + offset); };
  const i32 lane = static_cast<i32>(threadIdx.x) % kLanes;
  for (i32 row = static_cast<i32>(threadIdx.x) / kLanes; row < kConfig.block_m;
       row += kBackwardWarps * kWarp / kLanes) {
    float sum = 0.0f;
#pragma unroll
    for (i32 chunk = lane; chunk < kConfig.head_dim / kChunk; chunk += kLanes) {
      const i32 place = tile_offset(kTiles.q, row, chunk);
      const auto values = [&](i32 tile) {
        return decode(load_chunk(reinterpret_cast<const T*>(shared_memory + tile + place)));
      };
      const Values o = values(kTiles.o()), dO = values(kTiles.dout_of(stage));
#pragma unroll
      for (i32 i = 0; i < kChunk; ++i) sum += o.at[i] * dO.at[i];
    }
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    if (lane != 0) continue;
    const float l = floats(kTiles.l_of(stage))[row];
    floats(kTiles.lse())[row] = l == 0.0f ? kInfinity : floats(kTiles.m_of(stage))[row] + log2f(l);
    floats(kTiles.delta())[row] = sum;
  }
}

__device__ inline BackwardBlock backward_block(const Params& params, const Workspace& workspace,
                                               const BackwardConfig& config) {
  const Shape& shape = params.shape;
  const i64 batch = blockIdx.x / static_cast<u32>(shape.num_heads_kv);
  const i64 head = blockIdx.x % static_cast<u32>(shape.num_heads_kv);
  const i32 heads = static_cast<i32>(shape.sharing());
  const i32 m_blocks = static_cast<i32>(ceil_div<i64>(shape.seqlen_q, config.block_m));
  const BatchEntry entry = batch_entry(params, batch);
  return {.mask = entry.mask,
          .visits = workspace.visits + batch * m_blocks,
          .heads = heads,
          .m_blocks = m_blocks,
          .batch = batch,
          .first_slice = batch * shape.num_heads_q + head * heads,
          .row_offset = shape.q.offset(batch, head * heads, entry.first_row),
          .key_offset = shape.k.offset(batch, head, entry.first_key),
          .statistics = shape.row_statistic_offset(batch, head * heads, 0)};
}

template <class T, BackwardConfig kConfig>
__device__ void backward(const Params& params, const Workspace& workspace, const T* gQ, const T* gK,
                         const T* gV, const T* gO, const T* gDO, T* gDQ, T* gDK, T* gDV) {
  using namespace device;
  using Parts = BackwardParts<kConfig>;
  using Scores = typename Parts::Scores;
  using Keys = typename Parts::Keys;
  using Rows = typename Parts::Rows;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kThreads = kBackwardWarps * kWarp;
  constexpr i32 kPieces = kConfig.head_dim / 16;

  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 shared = ptx::cvta_to_shared(shared_memory);
  const auto at = [&](i32 offset) { return shared + static_cast<u32>(offset); };
  const u32 sK = at(kTiles.k()), sV = at(kTiles.v());
  const u32 sP = at(kTiles.p_tile()), sDS = at(kTiles.ds_tile());
  auto& sBlock = *reinterpret_cast<BackwardBlock*>(shared_memory + kTiles.block());
  const Shape& shape = params.shape;
  const i32 head_dim = static_cast<i32>(shape.head_dim);
  if (threadIdx.x == 0) {
    sBlock = backward_block(params, workspace, kConfig);
    sBlock.keys = key_tile(params, workspace, kConfig, sBlock, 0);
  }
  __syncthreads();
  for (i32 head = 0; head < sBlock.heads; ++head) {
    finish_unseen<kBackwardWarps>(sBlock.visits, sBlock.mask, kConfig.block_m,
                                  gDQ + sBlock.row_offset + head * shape.q.head, shape.q.row,
                                  head_dim, [](i64) {});
  }

  const KeyTile& sKeys = sBlock.keys;
  while (sKeys.first_key < sBlock.mask.seqlen_k) {  // line 6
    // Line 10, but for O, which has one place: it is done with before P is formed.
    const auto load_tile_of_rows = [&](const BackwardStep& step, const T* gRows, i32 tile) {
      const i32 first_row = step.m_block * kConfig.block_m;
      const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row;
      const i64 offset = sBlock.row_offset + step.head * shape.q.head + first_row * shape.q.row;
      load_tile<kTiles.q, kThreads>(gRows + offset, shape.q.row, exist, head_dim, at(tile));
    };
    const auto load_rows = [&](const BackwardStep& step, i32 stage) {
      load_tile_of_rows(step, gQ, kTiles.q_of(stage));
      load_tile_of_rows(step, gDO, kTiles.dout_of(stage));
      const i32 first_row = step.m_block * kConfig.block_m;
      const i64 statistics = sBlock.statistics + step.head * shape.seqlen_q + first_row;
      for (i32 row = static_cast<i32>(threadIdx.x); row < kConfig.block_m; row += kThreads) {
        const u32 bytes = first_row + row < sBlock.mask.seqlen_q ? 4 : 0;
        ptx::cp_async_ca_4(at(kTiles.m_of(stage)) + 4 * row, workspace.m + statistics + row, bytes);
        ptx::cp_async_ca_4(at(kTiles.l_of(stage)) + 4 * row, workspace.l + statistics + row, bytes);
      }
    };

    BackwardStep step = {.m_block = sKeys.tiles.begin,
                         .head = sKeys.tiles.begin < sKeys.tiles.end ? 0 : sBlock.heads};
    if (step.head < sBlock.heads) {  // line 7
      const i32 valid = static_cast<i32>(sBlock.mask.valid_k - sKeys.first_key);
      load_tile<kTiles.kv, kThreads>(gK + sKeys.key_offset, shape.k.row, valid, head_dim, sK);
      load_tile<kTiles.kv, kThreads>(gV + sKeys.key_offset, shape.k.row, valid, head_dim, sV);
      load_rows(step, 0);
      load_tile_of_rows(step, gO, kTiles.o());
    }
    ptx::cp_async_commit_group();
    // Meanwhile what is known of the next tile of keys.
    if (threadIdx.x == 0) {
      sBlock.next_keys = key_tile(params, workspace, kConfig, sBlock, sKeys.n_block + 1);
    }
    typename Keys::Sums rDK, rDV;  // line 8
    rDK.clear();
    rDV.clear();

    for (i32 stage = 0; step.head < sBlock.heads;
         step = step.next(sKeys.tiles), stage ^= 1) {  // line 9
      ptx::cp_async_wait_group<0>();
      __syncthreads();  // the rows are there for all, and all are done with the step before
      if (const BackwardStep ahead = step.next(sKeys.tiles); ahead.head < sBlock.heads) {
        load_rows(ahead, stage ^ 1);
      }
      ptx::cp_async_commit_group();
      const u32 sQ = at(kTiles.q_of(stage)), sDO = at(kTiles.dout_of(stage));
      const i64 slice = sBlock.first_slice + step.head;
      const i32 first_row = step.m_block * kConfig.block_m;
      row_statistics<kConfig, T>(shared_memory, stage);

      // Lines 11 to 15, 17, 18 and 20, of the warp's part of the scores.
      typename Scores::Sums rP, rDS;
      const auto multiply_transposed = [&](u32 left, u32 right, typename Scores::Sums& sums) {
        const LeftPieces<kTiles.kv> lefts(left, Scores::row(), 0);
        const RightPiecesTransposed<kTiles.q> rights(right, Scores::column(), 0);
        sums.clear();
        multiply_add<T, kPieces>(
            sums, [&](i32 r, i32 piece) { return left_piece(lefts, 16 * r, 16 * piece); },
            [&](i32 piece, i32 c) { return right_piece(rights, 16 * piece, 16 * c); });
      };
      multiply_transposed(sV, sDO, rDS);  // dP^T = V dO^T
      multiply_transposed(sK, sQ, rP);    // S^T = K Q^T
      __syncthreads();                    // lse and D of all rows: O has been used
      if (const BackwardStep ahead = step.next(sKeys.tiles); ahead.head < sBlock.heads) {
        load_tile_of_rows(ahead, gO, kTiles.o());
      }
      ptx::cp_async_commit_group();
      const i32 lane_row = Scores::column() + 2 * (static_cast<i32>(threadIdx.x) % 4);
      const auto of_rows = [&](i32 offset, i32 row) {  // a lane's pair of rows
        return *reinterpret_cast<const float2*>(shared_memory + offset + 4 * (lane_row + row));
      };
#pragma unroll
      for (i32 c = 0; c < Scores::kOwnColumns / 8; ++c) {  // P^T = exp(S^T - lse)
        const float2 lse = of_rows(kTiles.lse(), 8 * c);
#pragma unroll
        for (i32 r = 0; r < Scores::kOwnRows / 16; ++r) {
#pragma unroll
          for (i32 i = 0; i < 4; ++i) {
            rP.at[r][c][i] = ptx::ex2_approx_ftz_f32(
                fmaf(rP.at[r][c][i], shape.softmax_scale_log2, i % 2 == 0 ? -lse.x : -lse.y));
          }
        }
      }
      if (sKeys.tiles.is_partial(step.m_block)) {
        for_hidden_transposed<Scores::kOwnRows / 16, Scores::kOwnColumns / 8>(
            sBlock.mask, first_row + Scores::column(), sKeys.first_key + Scores::row(),
            [&](i32 r, i32 c, i32 i) { rP.at[r][c][i] = 0.0f; });
      }
      // dS^T = P^T (Z dP^T - D)
#pragma unroll
      for (i32 c = 0; c < Scores::kOwnColumns / 16; ++c) {
        const float2 deltas[2] = {of_rows(kTiles.delta(), 16 * c),
                                  of_rows(kTiles.delta(), 16 * c + 8)};
#pragma unroll
        for (i32 r = 0; r < Scores::kOwnRows / 16; ++r) {
          u32 kept = 0xFF;
          if constexpr (kConfig.dropout) {
            kept =
                kept_bits_transposed(params.dropout, slice, first_row + Scores::column() + 16 * c,
                                     sKeys.first_key + Scores::row() + 16 * r);
          }
          differentiate<kConfig.dropout>(rP, rDS, r, c, deltas, kept, params.dropout.keep_scale);
        }
      }
      store_sums<T, kTiles.p>(rP, sP, Scores::row(), Scores::column());
      store_sums<T, kTiles.p>(rDS, sDS, Scores::row(), Scores::column());

      // dQ as it was, on its way while dV and dK are computed.
      const bool is_first = sBlock.visits[step.m_block].first == sKeys.n_block;
      const bool is_last = sBlock.visits[step.m_block].last == sKeys.n_block;
      float* const gSums = workspace.sums + (slice * sBlock.m_blocks + step.m_block) *
                                                (kConfig.block_m * kConfig.head_dim);
      typename Rows::Sums rDQ;
      rDQ.clear();
      if (!is_first) {
#pragma unroll
        for (i32 r = 0; r < Rows::kOwnRows / 16; ++r) {
#pragma unroll
          for (i32 c = 0; c < Rows::kOwnColumns / 8; ++c) {
            const auto old = *reinterpret_cast<const float4*>(gSums + place_in_sums<Rows>(r, c));
            rDQ.at[r][c][0] = old.x;
            rDQ.at[r][c][1] = old.y;
            rDQ.at[r][c][2] = old.z;
            rDQ.at[r][c][3] = old.w;
          }
        }
      }
      __syncthreads();  // P and dS of all warps
      const auto multiply_shared = [&](u32 left, u32 right, typename Keys::Sums& sums) {
        const LeftPieces<kTiles.p> lefts(left, Keys::row(), 0);
        const RightPieces<kTiles.q> rights(right, 0, Keys::column());
        multiply_add<T, kConfig.block_m / 16>(
            sums, [&](i32 r, i32 k) { return left_piece(lefts, 16 * r, 16 * k); },
            [&](i32 k, i32 c) { return right_piece(rights, 16 * k, 16 * c); });
      };
      multiply_shared(sP, sDO, rDV);  // line 16: dV += P^T dO
      multiply_shared(sDS, sQ, rDK);  // line 22: dK += dS^T Q
      const LeftPiecesTransposed<kTiles.p> ds(sDS, 0, Rows::row());
      const RightPieces<kTiles.kv> k(sK, 0, Rows::column());
      multiply_add<T, kConfig.block_n / 16>(  // line 21: dQ += dS K
          rDQ, [&](i32 r, i32 key) { return left_piece(ds, 16 * r, 16 * key); },
          [&](i32 key, i32 c) { return right_piece(k, 16 * key, 16 * c); });
      if (!is_last) {
#pragma unroll
        for (i32 r = 0; r < Rows::kOwnRows / 16; ++r) {
#pragma unroll
          for (i32 c = 0; c < Rows::kOwnColumns / 8; ++c) {
            const float(&sums)[4] = rDQ.at[r][c];
            *reinterpret_cast<float4*>(gSums + place_in_sums<Rows>(r, c)) = {sums[0], sums[1],
                                                                             sums[2], sums[3]};
          }
        }
      } else {            // by way of the tile of Q
        __syncthreads();  // all are done with it
        rDQ.scale(shape.softmax_scale);
        store_sums<T, kTiles.q>(rDQ, sQ, Rows::row(), Rows::column());
        __syncthreads();
        constexpr i32 kWarpRows = kConfig.block_m / kBackwardWarps;
        const i32 own = static_cast<i32>(threadIdx.x) / kWarp * kWarpRows;
        const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row - own;
        store_rows<kTiles.q, kWarpRows>(
            shared_memory + kTiles.q_of(stage), own, min(kWarpRows, exist),
            gDQ + sBlock.row_offset + step.head * shape.q.head + (first_row + own) * shape.q.row,
            shape.q.row, head_dim);
      }
    }

    // Line 24: dK and dV, by way of the tiles of K and V.
    __syncthreads();  // all are done with them
    rDK.scale(shape.softmax_scale);
    rDV.scale(params.dropout.keep_scale);
    store_sums<T, kTiles.kv>(rDK, sK, Keys::row(), Keys::column());
    store_sums<T, kTiles.kv>(rDV, sV, Keys::row(), Keys::column());
    __syncthreads();
    constexpr i32 kWarpKeys = kConfig.block_n / kBackwardWarps;
    const i32 own = static_cast<i32>(threadIdx.x) / kWarp * kWarpKeys;
    const i32 exist = static_cast<i32>(sBlock.mask.seqlen_k - sKeys.first_key) - own;
    store_rows<kTiles.kv, kWarpKeys>(shared_memory + kTiles.k(), own, min(kWarpKeys, exist),
                                     gDK + sKeys.key_offset + own * shape.k.row, shape.k.row,
                                     head_dim);
    store_rows<kTiles.kv, kWarpKeys>(shared_memory + kTiles.v(), own, min(kWarpKeys, exist),
                                     gDV + sKeys.key_offset + own * shape.k.row, shape.k.row,
                                     head_dim);
    __syncthreads();  // all are done with the tile of keys, and have written dQ
    if (threadIdx.x == 0) sBlock.keys = sBlock.next_keys;
    __syncthreads();
  }
}

}  // namespace attnlab::v1
