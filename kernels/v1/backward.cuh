// Implements v1's backward on a GPU: FlashAttention's Algorithm 4 with mma.sync and cp.async. Line
// numbers are its own.
//
// Against naive, P is computed again from Q, K and what the forward saved of the softmax, m and l.
// A thread block has one (batch, K/V head): outside it passes over tiles of keys, whose dK and dV
// are summed in registers; inside over the query rows that see them, of all query heads that share
// the K/V head. dQ belongs to the rows, which every tile of keys meets anew: in fp32 it comes from
// device memory at each step and goes back there (not at a row's first visit). Nobody else adds to
// it, so there are no atomics, and the order is fixed. D = rowsum(dO * O) is computed at every step
// from O, as the paper has it; v2 does it once, and gives the tiles of keys to different blocks.
//
// Scores are kept transposed, keys x rows, each warp having keys of its own. Where head_dim leaves
// room, two teams of warps share the tiles of rows, each at its own pace: while one waits for what
// its warps exchange, the other multiplies. A warp then has all rows of its keys, so that P and dS
// go from one product into the next in its registers, and only dS meets that of other warps, in
// shared memory, for dQ; each team has a dK and dV of its own rows, which are added when all have
// passed. Else P and dS of all warps meet in shared memory, where the three products that follow
// are divided anew.
//
// Two kernels are compiled of it, and each block's work is done by one of them, which the forward
// has found out: P = exp(S - lse) costs least, but where logits are so large that lse, one fp32
// number, does not hold them, P = exp(S - m) / l.
#pragma once

#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax_backward.cuh"
#include "kernels/v1/backward_parts.cuh"
#include "kernels/v1/backward_work.cuh"
#include "kernels/v1/row_statistics.cuh"
#include "kernels/v1/row_visits.cuh"

namespace attnlab::v1 {

// Runs all of Algorithm 4. It is long because the loops that make P and dS of a slice stay in it:
// NVRTC 13.0 orders accumulators by how many variables the function has beside them, and ptxas
// allocates registers by that order.
template <class T, BackwardConfig kConfig, bool kFromMAndL>
__device__ void backward(const BackwardArguments<T>& arguments) {
  using namespace device;
  const Params& params = arguments.params;
  const Workspace& workspace = arguments.workspace;
  const auto tensors = arguments.tensors;
  using Parts = BackwardParts<kConfig>;
  using TransposedScores = typename Parts::TransposedScores;
  using Keys = typename Parts::Keys;
  using Rows = typename Parts::Rows;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kTeams = kConfig.teams;
  constexpr i32 kThreads = kBackwardWarps * kWarp;
  constexpr i32 kTeamThreads = kConfig.team_warps() * kWarp;
  constexpr i32 kColumnSteps = kConfig.head_dim / 16;
  // A warp takes kSlice rows at once: all of its part, or, where it has all rows or needs registers
  // for m and l, some of them.
  constexpr i32 kSlice = kFromMAndL                 ? 16
                         : kConfig.p_in_registers() ? kConfig.slice_rows()
                                                    : TransposedScores::own_query_rows();
  using Slice = Accumulator<TransposedScores::own_keys() / 16, kSlice / 8>;
  static_assert(TransposedScores::own_query_rows() % kSlice == 0,
                "a warp takes its rows in whole slices");

  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 shared = ptx::cvta_to_shared(shared_memory);
  const auto at = [&](i32 offset) { return shared + static_cast<u32>(offset); };
  const u32 sK = at(kTiles.k()), sV = at(kTiles.v());
  auto& sBlock = *reinterpret_cast<BackwardBlock*>(shared_memory + kTiles.block());
  const Shape& shape = params.shape;
  const i32 head_dim = static_cast<i32>(shape.head_dim);
  if (threadIdx.x == 0) {
    sBlock = backward_block(params, workspace, kConfig);
    sBlock.next_keys = key_tile(params, workspace, kConfig, sBlock, 0);
    if (is_beyond_lse(workspace, sBlock) != kFromMAndL) {  // nothing is to be done here
      sBlock.heads = 0;
      sBlock.next_keys.first_key = sBlock.mask.seqlen_k;
    }
  }
  __syncthreads();
  // The kernel from lse does not return here but goes through its empty loops: a return would take
  // the last registers, as ptxas happens to allocate them.
  if (kFromMAndL && sBlock.heads == 0) return;
  for (i32 head = 0; head < sBlock.heads; ++head) {
    finish_unseen<kBackwardWarps>(sBlock.visits, sBlock.mask, kConfig.block_m,
                                  tensors.gDQ + sBlock.row_offset + head * shape.q.head,
                                  shape.q.row, head_dim, [](i64) {});
  }

  const BackwardTeam<kConfig> team(shared_memory, shared);
  const u32 sP = team.at(kTiles.p_tile()), sDS = team.at(kTiles.ds_tile());

  auto& sKeys = *reinterpret_cast<KeyTile*>(team.memory + kTiles.keys());  // a copy a team
  const BackwardWork<T, kConfig> work = {params, workspace, tensors, team, sBlock, sKeys, head_dim};
  for (;;) {          // line 6
    __syncthreads();  // all are done with the tile of keys before
    if (team.thread == 0) work.take_keys(sKeys);
    __syncthreads();
    if (sKeys.first_key >= sBlock.mask.seqlen_k) break;
    BackwardStep step = {.m_block = sKeys.first_own,
                         .head = sKeys.first_own < sKeys.tiles.end ? 0 : sBlock.heads};
    if (sKeys.tiles.begin < sKeys.tiles.end) {  // line 7
      work.load_keys(sK, sV);
    }
    if (step.head < sBlock.heads) {
      work.load_rows(step, 0);
      work.load_tile_of_rows(step, tensors.gO, kTiles.o());
    }
    ptx::cp_async_commit_group();
    // Meanwhile one thread looks up the next tile of keys.
    if (threadIdx.x == 0) {
      sBlock.next_keys = key_tile(params, workspace, kConfig, sBlock, sKeys.n_block + 1);
    }
    typename Keys::Accumulator rDK, rDV;  // line 8
    rDK.clear();
    rDV.clear();
    if constexpr (kTeams > 1) {
      ptx::cp_async_wait_group<0>();
      __syncthreads();  // K and V are there for all
    }

    for (i32 stage = 0; step.head < sBlock.heads;
         step = step.next(sKeys, kTeams), stage ^= 1) {  // line 9
      ptx::cp_async_wait_group<0>();
      team.sync();  // the rows are there for all, and all are done with the step before
      if (const BackwardStep ahead = step.next(sKeys, kTeams); ahead.head < sBlock.heads) {
        work.load_rows(ahead, stage ^ 1);
      }
      ptx::cp_async_commit_group();
      const u32 sQ = team.at(kTiles.q_of(stage)), sDO = team.at(kTiles.dout_of(stage));
      const i32 first_row = step.m_block * kConfig.block_m;
      const auto& sVisits =
          *reinterpret_cast<const RowVisits*>(team.memory + kTiles.visits_of(stage));
      // dQ as it was has registers only when S has none any more; until then it waits in the L2.
      if (sVisits.first != sKeys.n_block) {
        work.prefetch_sums(step);
      }
      row_statistics<kConfig, T>(team.memory, team.at(0), team.thread, stage);
      team.sync();  // lse and D of all rows: O has been used
      if (const BackwardStep ahead = step.next(sKeys, kTeams); ahead.head < sBlock.heads) {
        work.load_tile_of_rows(ahead, tensors.gO, kTiles.o());
      }
      ptx::cp_async_commit_group();

      // Computes lines 11 to 15, 17, 18 and 20 for the warp's part of the scores.
#pragma unroll 1
      for (i32 slice = 0; slice < TransposedScores::own_query_rows() / kSlice; ++slice) {
        const i32 own_row =
            TransposedScores::first_query_row() + slice * kSlice;  // within the tile
        Slice rP, rDS;
        const i32 own_key = TransposedScores::first_key();
        multiply_k_major<T, kTiles.kv, kTiles.q>(rDS, sV, own_key, sDO, own_row);  // dP^T = V dO^T
        multiply_k_major<T, kTiles.kv, kTiles.q>(rP, sK, own_key, sQ, own_row);    // S^T = K Q^T
        const i32 lane_row = own_row + 2 * (opaque_lane() % 4);
        const auto of_rows = [&](i32 offset, i32 row) {  // a lane's pair of rows
          return *reinterpret_cast<const float2*>(team.memory + offset + 4 * (lane_row + row));
        };
        if constexpr (kFromMAndL) {
          recompute_p_of_states(
              rP, shape.softmax_scale_log2, [&](i32 row) {  // P^T = exp(S^T - m) / l
                const u8* const sRow = team.memory + 4 * (lane_row + row);
                return OnlineSoftmax{*reinterpret_cast<const float*>(sRow + kTiles.m_of(stage)),
                                     *reinterpret_cast<const float*>(sRow + kTiles.l_of(stage))};
              });
        } else {
#pragma unroll
          for (i32 c = 0; c < kSlice / 8; ++c) {  // P^T = exp(S^T - lse)
            const float2 lse = of_rows(kTiles.lse(), 8 * c);
            recompute_p_of_lse(rP, c, shape.softmax_scale_log2,
                               [&](i32 i) { return i % 2 ? lse.y : lse.x; });
          }
        }
        if (sKeys.tiles.is_partial(step.m_block)) {
          for_hidden_transposed<TransposedScores::own_keys() / 16, kSlice / 8>(
              sBlock.mask, first_row + own_row, sKeys.first_key + TransposedScores::first_key(),
              [&](i32 r, i32 c, i32 i) { rP.at[r][c][i] = 0.0f; });
        }
        // dS^T = P^T (Z dP^T - D)
#pragma unroll
        for (i32 c = 0; c < kSlice / 16; ++c) {
          const float2 deltas[2] = {of_rows(kTiles.delta(), 16 * c),
                                    of_rows(kTiles.delta(), 16 * c + 8)};
#pragma unroll
          for (i32 r = 0; r < TransposedScores::own_keys() / 16; ++r) {
            u32 kept = 0xFF;
            if constexpr (kConfig.dropout) {
              kept = kept_bits_transposed(params.dropout, sBlock.first_slice + step.head,
                                          first_row + own_row + 16 * c,
                                          sKeys.first_key + TransposedScores::first_key() + 16 * r);
            }
            softmax_backward<kConfig.dropout>(rP, rDS, r, c, deltas, kept,
                                              params.dropout.keep_scale);
          }
        }
        if constexpr (kConfig.p_in_registers()) {
          const MnMajorB<kTiles.q> dO(sDO, own_row, 0);
          multiply_add_rounded<T>(rDV, rP, dO);  // line 16: dV += P^T dO
          store_accumulator<T, kTiles.p>(rDS, sDS, TransposedScores::first_key(), own_row);
          const MnMajorB<kTiles.q> q(sQ, own_row, 0);
          multiply_add_rounded<T>(rDK, rDS, q);  // line 22: dK += dS^T Q
        } else {
          store_accumulator<T, kTiles.p>(rP, sP, TransposedScores::first_key(), own_row);
          store_accumulator<T, kTiles.p>(rDS, sDS, TransposedScores::first_key(), own_row);
        }
      }

      // Loads dQ of the steps before, in flight while the team waits for the other warps' dS.
      const bool is_first = sVisits.first == sKeys.n_block;
      const bool is_last = sVisits.last == sKeys.n_block;
      float* const gSums = work.sums_of_rows(step);
      typename Rows::Accumulator rDQ;
      rDQ.clear();
      if (!is_first) {
        load_sums<Rows>(gSums, rDQ);
      }
      team.sync();  // dS (and P) of all warps
      if constexpr (!kConfig.p_in_registers()) {
        multiply_add_part<Keys, T, kTiles.p, kTiles.q>(rDV, sP, sDO);  // line 16: dV += P^T dO
        multiply_add_part<Keys, T, kTiles.p, kTiles.q>(rDK, sDS, sQ);  // line 22: dK += dS^T Q
      }
      const MnMajorA<kTiles.p> ds(sDS, 0, Rows::row());
      const MnMajorB<kTiles.kv> k(sK, 0, Rows::column());
      multiply_add_tiles<T, kConfig.block_n / 16>(rDQ, ds, k);  // line 21: dQ += dS K
      if (!is_last) {
        store_sums<Rows>(rDQ, gSums);
      } else {
        work.store_dq(rDQ, step, first_row, stage, sQ);
      }
    }

    work.store_keys(rDK, rDV, shared_memory, sK, sV);
  }
}

}  // namespace attnlab::v1
