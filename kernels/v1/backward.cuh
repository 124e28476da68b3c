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
#include "kernels/device/warp_part.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/prefetch.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v1/row_visits.cuh"

namespace attnlab::v1 {

// Which warp has which part of the products.
template <BackwardConfig kConfig>
struct BackwardParts {
  static constexpr i32 kWarps = kConfig.team_warps(), kTeams = kConfig.teams;
  static constexpr i32 kKeys = kConfig.block_n, kRows = kConfig.block_m, kDim = kConfig.head_dim;
  static constexpr WarpGrid kOfScores =
      kConfig.p_in_registers() ? WarpGrid{kWarps, 1} : warp_grid(kWarps, kKeys, kRows);
  static constexpr WarpGrid kOfKeys =
      kConfig.p_in_registers() ? kOfScores : warp_grid(kWarps, kKeys, kDim);
  using Scores = device::WarpPart<kOfScores, kKeys, kRows, kTeams>;                    // S^T, dP^T
  using Keys = device::WarpPart<kOfKeys, kKeys, kDim, kTeams>;                         // dK, dV
  using Rows = device::WarpPart<warp_grid(kWarps, kRows, kDim), kRows, kDim, kTeams>;  // dQ
};

__device__ inline void store_four(float* to, const float (&sum)[4]) {
  *reinterpret_cast<float4*>(to) = {sum[0], sum[1], sum[2], sum[3]};
}

// A step of the inner loop: a tile of rows of one of the query heads.
struct BackwardStep {
  i32 m_block = 0;
  i32 head = 0;

  // A team's next one.
  __device__ BackwardStep next(const KeyTile& keys, i32 teams) const {
    const i32 below = keys.tiles.not_empty(m_block + teams, teams);
    return below < keys.tiles.end ? BackwardStep{below, head}
                                  : BackwardStep{keys.first_own, head + 1};
  }
};

// Lines 13 and 19 for the rows of a step: lse from m and l, in units of log2, and D = rowsum(dO *
// O), which is the diagonal of dO O^T: each warp multiplies fragments of 16 rows with themselves.
// Rows that saw nothing get an lse of infinity, and with it P = 0.
template <BackwardConfig kConfig, class T>
__device__ void row_statistics(u8* team_memory, u32 team_shared, i32 team_thread, i32 stage) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kWarps = kConfig.team_warps();
  asm volatile("" : "+r"(team_thread));  // worked out anew, as opaque_lane()
  const auto floats = [&](i32 offset) { return reinterpret_cast<float*>(team_memory + offset); };
  for (i32 row = team_thread; row < kConfig.block_m; row += kWarps * kWarp) {
    const float l = floats(kTiles.l_of(stage))[row];
    floats(kTiles.lse())[row] = l == 0.0f ? kInfinity : floats(kTiles.m_of(stage))[row] + log2f(l);
  }
  for (i32 piece = team_thread / kWarp; piece < kConfig.block_m / 16; piece += kWarps) {
    const auto at = [&](i32 offset) { return team_shared + static_cast<u32>(offset); };
    const TileA<kTiles.q> dO(at(kTiles.dout_of(stage)), 16 * piece, 0);
    const TileBTransposed<kTiles.q> o(at(kTiles.o()), 16 * piece, 0);
    Accumulator<1, 2> products;
    products.clear();
    multiply_add<T, kConfig.head_dim / 16>(
        products, [&](i32, i32 k) { return fragment_a(dO, 0, 16 * k); },
        [&](i32 k, i32) { return fragment_b(o, 16 * k, 0); });
    // Rows and columns g and g + 8 meet in the lane that has columns 2t and 2t + 1 with g = 2t or
    // 2t + 1.
    const i32 g = team_thread % kWarp / 4, t = team_thread % 4;
    if (g / 2 != t) continue;
    float* const delta = floats(kTiles.delta()) + 16 * piece + g;
    delta[0] = g % 2 == 0 ? products.at[0][0][0] : products.at[0][0][1];
    delta[8] = g % 2 == 0 ? products.at[0][1][2] : products.at[0][1][3];
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

// Whether lse does not hold the logits of one of the block's heads.
__device__ inline bool is_beyond_lse(const Workspace& workspace, const BackwardBlock& block) {
  bool beyond_lse = false;
  for (i32 head = 0; head < block.heads; ++head) {
    beyond_lse |= workspace.beyond_lse[block.first_slice + head] != 0;
  }
  return beyond_lse;
}

template <class T, BackwardConfig kConfig, bool kFromMAndL>
__device__ void backward(const BackwardArguments<T>& arguments) {
  using namespace device;
  const Params& params = arguments.params;
  const Workspace& workspace = arguments.workspace;
  const auto [gQ, gK, gV, gO, gDO, gDQ, gDK, gDV] = arguments.tensors;
  using Parts = BackwardParts<kConfig>;
  using Scores = typename Parts::Scores;
  using Keys = typename Parts::Keys;
  using Rows = typename Parts::Rows;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kTeams = kConfig.teams;
  constexpr i32 kThreads = kBackwardWarps * kWarp;
  constexpr i32 kTeamThreads = kConfig.team_warps() * kWarp;
  constexpr i32 kColumnSteps = kConfig.head_dim / 16;
  // Rows that a warp takes at once: all of its part, or, where it has all rows or needs registers
  // for m and l, some of them.
  constexpr i32 kSlice = kFromMAndL                 ? 16
                         : kConfig.p_in_registers() ? kConfig.slice_rows()
                                                    : Scores::kOwnColumns;
  using Slice = Accumulator<Scores::kOwnRows / 16, kSlice / 8>;
  static_assert(Scores::kOwnColumns % kSlice == 0, "a warp takes its rows in whole slices");

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
  // The other kernel passes by all loops instead: by chance of its compiler, a return costs it the
  // last registers.
  if (kFromMAndL && sBlock.heads == 0) return;
  for (i32 head = 0; head < sBlock.heads; ++head) {
    finish_unseen<kBackwardWarps>(sBlock.visits, sBlock.mask, kConfig.block_m,
                                  gDQ + sBlock.row_offset + head * shape.q.head, shape.q.row,
                                  head_dim, [](i64) {});
  }

  const i32 thread = static_cast<i32>(threadIdx.x);
  // The same in a warp, and the compiler knows: else it has no registers for this.
  const i32 team = kTeams == 1 ? 0 : __shfl_sync(0xFFFFFFFFu, thread / kTeamThreads, 0);
  const i32 team_thread = kTeams == 1 ? thread : thread % kTeamThreads;
  const i32 team_shift = team == 0 ? 0 : kTiles.team_bytes();  // from the first team's places
  u8* const team_memory = shared_memory + team_shift;
  const auto team_at = [&](i32 offset) { return at(offset) + static_cast<u32>(team_shift); };
  const auto team_sync = [&] {
    if constexpr (kTeams == 1) {
      __syncthreads();
    } else {
      ptx::barrier_sync(1 + team, kTeamThreads);
    }
  };
  const u32 sP = team_at(kTiles.p_tile()), sDS = team_at(kTiles.ds_tile());

  auto& sKeys = *reinterpret_cast<KeyTile*>(team_memory + kTiles.keys());  // a copy a team
  for (;;) {                                                               // line 6
    __syncthreads();  // all are done with the tile of keys before
    if (team_thread == 0) {
      // A team has each tile of rows that is its own among as many, under every tile of keys: what
      // it wrote of dQ it reads back itself.
      sKeys = sBlock.next_keys;
      const i32 begin = sKeys.tiles.begin;
      const i32 to_own = (team - begin % kTeams + kTeams) % kTeams;
      sKeys.first_own = sKeys.tiles.not_empty(begin + to_own, kTeams);
    }
    __syncthreads();
    if (sKeys.first_key >= sBlock.mask.seqlen_k) break;
    // Line 10, but for O, which has one place: it is done with before the scores.
    const auto load_tile_of_rows = [&](const BackwardStep& step, const T* gRows, i32 tile) {
      const i32 first_row = step.m_block * kConfig.block_m;
      const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row;
      const i64 offset = sBlock.row_offset + step.head * shape.q.head + first_row * shape.q.row;
      load_tile<kTiles.q, kTeamThreads>(gRows + offset, shape.q.row, exist, head_dim, team_at(tile),
                                        team_thread);
    };
    const auto load_rows = [&](const BackwardStep& step, i32 stage) {
      load_tile_of_rows(step, gQ, kTiles.q_of(stage));
      load_tile_of_rows(step, gDO, kTiles.dout_of(stage));
      const i32 first_row = step.m_block * kConfig.block_m;
      const i64 statistics = sBlock.statistics + step.head * shape.seqlen_q + first_row;
      if (team_thread < 2) {  // the first and the last tile of keys that visits them
        ptx::cp_async_ca_4(team_at(kTiles.visits_of(stage)) + 4 * team_thread,
                           reinterpret_cast<const i32*>(sBlock.visits + step.m_block) + team_thread,
                           4);
      }
      for (i32 row = team_thread; row < kConfig.block_m; row += kTeamThreads) {
        const u32 bytes = first_row + row < sBlock.mask.seqlen_q ? 4 : 0;
        ptx::cp_async_ca_4(team_at(kTiles.m_of(stage)) + 4 * row, workspace.m + statistics + row,
                           bytes);
        ptx::cp_async_ca_4(team_at(kTiles.l_of(stage)) + 4 * row, workspace.l + statistics + row,
                           bytes);
      }
    };

    BackwardStep step = {.m_block = sKeys.first_own,
                         .head = sKeys.first_own < sKeys.tiles.end ? 0 : sBlock.heads};
    if (sKeys.tiles.begin < sKeys.tiles.end) {  // line 7
      const i32 valid = static_cast<i32>(sBlock.mask.valid_k - sKeys.first_key);
      load_tile<kTiles.kv, kThreads>(gK + sKeys.key_offset, shape.k.row, valid, head_dim, sK);
      load_tile<kTiles.kv, kThreads>(gV + sKeys.key_offset, shape.k.row, valid, head_dim, sV);
    }
    if (step.head < sBlock.heads) {
      load_rows(step, 0);
      load_tile_of_rows(step, gO, kTiles.o());
    }
    ptx::cp_async_commit_group();
    // Meanwhile what is known of the next tile of keys.
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
      team_sync();  // the rows are there for all, and all are done with the step before
      if (const BackwardStep ahead = step.next(sKeys, kTeams); ahead.head < sBlock.heads) {
        load_rows(ahead, stage ^ 1);
      }
      ptx::cp_async_commit_group();
      const u32 sQ = team_at(kTiles.q_of(stage)), sDO = team_at(kTiles.dout_of(stage));
      const i32 first_row = step.m_block * kConfig.block_m;
      const auto& sVisits =
          *reinterpret_cast<const RowVisits*>(team_memory + kTiles.visits_of(stage));
      const auto sums_of_rows = [&] {
        const i64 tile = (sBlock.first_slice + step.head) * sBlock.m_blocks + step.m_block;
        return workspace.sums + tile * (kConfig.block_m * kConfig.head_dim);
      };
      // dQ as it was has registers only when S has none any more; until then it waits in the L2.
      if (sVisits.first != sKeys.n_block) {
        constexpr i32 kLine = kLineBytes / 4;
        const float* const gOld = sums_of_rows();
        for (i32 i = team_thread * kLine; i < kConfig.block_m * kConfig.head_dim;
             i += kTeamThreads * kLine) {
          ptx::prefetch_global_l2(gOld + i);
        }
      }
      row_statistics<kConfig, T>(team_memory, team_at(0), team_thread, stage);
      team_sync();  // lse and D of all rows: O has been used
      if (const BackwardStep ahead = step.next(sKeys, kTeams); ahead.head < sBlock.heads) {
        load_tile_of_rows(ahead, gO, kTiles.o());
      }
      ptx::cp_async_commit_group();

      // Lines 11 to 15, 17, 18 and 20, of the warp's part of the scores.
#pragma unroll 1
      for (i32 slice = 0; slice < Scores::kOwnColumns / kSlice; ++slice) {
        const i32 own_row = Scores::column() + slice * kSlice;  // within the tile
        Slice rP, rDS;
        const i32 own_key = Scores::row();
        multiply_transposed<T, kTiles.kv, kTiles.q>(rDS, sV, own_key, sDO,
                                                    own_row);                       // dP^T = V dO^T
        multiply_transposed<T, kTiles.kv, kTiles.q>(rP, sK, own_key, sQ, own_row);  // S^T = K Q^T
        const i32 lane_row = own_row + 2 * (opaque_lane() % 4);
        const auto of_rows = [&](i32 offset, i32 row) {  // a lane's pair of rows
          return *reinterpret_cast<const float2*>(team_memory + offset + 4 * (lane_row + row));
        };
        if constexpr (kFromMAndL) {
          recompute_p_of_states(
              rP, shape.softmax_scale_log2, [&](i32 row) {  // P^T = exp(S^T - m) / l
                const u8* const sRow = team_memory + 4 * (lane_row + row);
                return OnlineSoftmax{*reinterpret_cast<const float*>(sRow + kTiles.m_of(stage)),
                                     *reinterpret_cast<const float*>(sRow + kTiles.l_of(stage))};
              });
        } else {
#pragma unroll
          for (i32 c = 0; c < kSlice / 8; ++c) {  // P^T = exp(S^T - lse)
            const float2 lse = of_rows(kTiles.lse(), 8 * c);
            recompute_p_of_lse(rP, c, shape.softmax_scale_log2,
                               [&](i32 odd) { return odd ? lse.y : lse.x; });
          }
        }
        if (sKeys.tiles.is_partial(step.m_block)) {
          for_hidden_transposed<Scores::kOwnRows / 16, kSlice / 8>(
              sBlock.mask, first_row + own_row, sKeys.first_key + Scores::row(),
              [&](i32 r, i32 c, i32 i) { rP.at[r][c][i] = 0.0f; });
        }
        // dS^T = P^T (Z dP^T - D)
#pragma unroll
        for (i32 c = 0; c < kSlice / 16; ++c) {
          const float2 deltas[2] = {of_rows(kTiles.delta(), 16 * c),
                                    of_rows(kTiles.delta(), 16 * c + 8)};
#pragma unroll
          for (i32 r = 0; r < Scores::kOwnRows / 16; ++r) {
            u32 kept = 0xFF;
            if constexpr (kConfig.dropout) {
              kept = kept_bits_transposed(params.dropout, sBlock.first_slice + step.head,
                                          first_row + own_row + 16 * c,
                                          sKeys.first_key + Scores::row() + 16 * r);
            }
            softmax_backward<kConfig.dropout>(rP, rDS, r, c, deltas, kept,
                                              params.dropout.keep_scale);
          }
        }
        if constexpr (kConfig.p_in_registers()) {
          const TileB<kTiles.q> dO(sDO, own_row, 0);
          multiply_add_rounded<T>(rDV, rP, dO);  // line 16: dV += P^T dO
          store_accumulator<T, kTiles.p>(rDS, sDS, Scores::row(), own_row);
          const TileB<kTiles.q> q(sQ, own_row, 0);
          multiply_add_rounded<T>(rDK, rDS, q);  // line 22: dK += dS^T Q
        } else {
          store_accumulator<T, kTiles.p>(rP, sP, Scores::row(), own_row);
          store_accumulator<T, kTiles.p>(rDS, sDS, Scores::row(), own_row);
        }
      }

      // dQ as it was, on its way while the others are waited for.
      const bool is_first = sVisits.first == sKeys.n_block;
      const bool is_last = sVisits.last == sKeys.n_block;
      float* const gSums = sums_of_rows();
      typename Rows::Accumulator rDQ;
      rDQ.clear();
      if (!is_first) {
        for_places<Rows>(rDQ, [&](float(&sum)[4], i32 place) {
          const auto old = *reinterpret_cast<const float4*>(gSums + place);
          sum[0] = old.x;
          sum[1] = old.y;
          sum[2] = old.z;
          sum[3] = old.w;
        });
      }
      team_sync();  // dS (and P) of all warps
      if constexpr (!kConfig.p_in_registers()) {
        multiply_add_part<Keys, T, kTiles.p, kTiles.q>(rDV, sP, sDO);  // line 16: dV += P^T dO
        multiply_add_part<Keys, T, kTiles.p, kTiles.q>(rDK, sDS, sQ);  // line 22: dK += dS^T Q
      }
      const TileATransposed<kTiles.p> ds(sDS, 0, Rows::row());
      const TileB<kTiles.kv> k(sK, 0, Rows::column());
      multiply_add_tiles<T, kConfig.block_n / 16>(rDQ, ds, k);  // line 21: dQ += dS K
      if (!is_last) {
        for_places<Rows>(rDQ,
                         [&](const float(&sum)[4], i32 place) { store_four(gSums + place, sum); });
      } else {        // by way of the tile of Q
        team_sync();  // all are done with it
        rDQ.scale(shape.softmax_scale);
        store_accumulator<T, kTiles.q>(rDQ, sQ, Rows::row(), Rows::column());
        team_sync();
        constexpr i32 kWarpRows = kConfig.block_m / kConfig.team_warps();
        const i32 own = team_thread / kWarp * kWarpRows;
        const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row - own;
        store_rows<kTiles.q, kWarpRows>(
            team_memory + kTiles.q_of(stage), own, min(kWarpRows, exist),
            gDQ + sBlock.row_offset + step.head * shape.q.head + (first_row + own) * shape.q.row,
            shape.q.row, head_dim);
      }
    }

    // Line 24: dK and dV, by way of the tiles of K and V. Of two teams one completes dK with what
    // the other sends of it, the other dV.
    __syncthreads();  // all are done with the tiles, and with rows
    const bool has_dk = kTeams == 1 || team == 0, has_dv = kTeams == 1 || team == 1;
    if constexpr (kTeams > 1) {
      static_assert(kTiles.sends(), "a team sends by way of its places for rows");
      auto* const sSent = reinterpret_cast<float*>(team_memory + kTiles.q_of(0));
      const auto* const sArrived = reinterpret_cast<const float*>(
          shared_memory + (kTiles.team_bytes() - team_shift) + kTiles.q_of(0));
      const auto send = [&](typename Keys::Accumulator& sums) {
        for_places<Keys>(sums,
                         [&](const float(&sum)[4], i32 place) { store_four(sSent + place, sum); });
      };
      const auto add_arrived = [&](typename Keys::Accumulator& sums) {
        for_places<Keys>(sums, [&](float(&sum)[4], i32 place) {
          const auto other = *reinterpret_cast<const float4*>(sArrived + place);
          sum[0] += other.x;
          sum[1] += other.y;
          sum[2] += other.z;
          sum[3] += other.w;
        });
      };
      if (has_dk) send(rDV);
      if (has_dv) send(rDK);
      __syncthreads();
      __syncthreads();  // for racecheck, which takes the first for none: TUNING.md
      if (has_dk) add_arrived(rDK);
      if (has_dv) add_arrived(rDV);
    }
    if (has_dk) {
      rDK.scale(shape.softmax_scale);
      store_accumulator<T, kTiles.kv>(rDK, sK, Keys::row(), Keys::column());
    }
    if (has_dv) {
      rDV.scale(params.dropout.keep_scale);
      store_accumulator<T, kTiles.kv>(rDV, sV, Keys::row(), Keys::column());
    }
    __syncthreads();
    constexpr i32 kWarpKeys = kConfig.block_n / kConfig.team_warps();
    const i32 own = team_thread / kWarp * kWarpKeys;
    const i32 exist = static_cast<i32>(sBlock.mask.seqlen_k - sKeys.first_key) - own;
    const auto store_keys = [&](i32 tile, T* gKeys) {
      store_rows<kTiles.kv, kWarpKeys>(shared_memory + tile, own, min(kWarpKeys, exist),
                                       gKeys + sKeys.key_offset + own * shape.k.row, shape.k.row,
                                       head_dim);
    };
    if (has_dk) store_keys(kTiles.k(), gDK);
    if (has_dv) store_keys(kTiles.v(), gDV);
  }
}

}  // namespace attnlab::v1
