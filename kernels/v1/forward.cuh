// Implements v1's forward on a GPU: FlashAttention's Algorithm 1 with the masks and dropout of
// Algorithm 2 and the empty tiles of Algorithm 5, with mma.sync and cp.async. Line numbers are
// those of Algorithm 1.
//
// Against naive, S and P never leave the chip. A thread block has one (batch, head). Outside it
// passes over tiles of K and V, which stay on chip while all query rows pass by; a row is finished
// only with the last tile of K and V, so its O, l and m go to device memory in fp32 and come back
// at each step. (Not so at a row's first visit, when there is nothing yet, and where one tile has
// all keys.)
//
// The warps of a team split the keys of the tile ("sliced K"): each has the scores of a slice of
// rows with its own keys, their statistics (maximum and sum), and a partial O of its own, P V. Each
// combines a share of O: its own partial O, those that the other warps send it through shared
// memory, and the running O, which came back from device memory. That cross-warp reduction at every
// step, O's way to memory and back, and a parallelism of batch x heads alone are what this design
// costs; v2 swaps the loops and has none of the three.
//
// Several teams share the rows, each at its own pace: while one combines, the others multiply. Q of
// the next step, and O, l and m of this one, are on their way meanwhile; and a warp multiplies the
// next columns of P V before it waits for what the others send of these.
#pragma once

#include "kernels/device/attend_again.cuh"
#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v1/combine.cuh"
#include "kernels/v1/cross_warp_reduction.cuh"
#include "kernels/v1/forward_team.cuh"
#include "kernels/v1/row_visits.cuh"
#include "kernels/v1/running_o.cuh"

namespace attnlab::v1 {

// Scores become exp2(softmax_scale_log2 * score - maximum over these keys); `rows` get that maximum
// and the sum, the same in the four lanes of a row.
template <i32 kRows, i32 kKeys>
__device__ void softmax_of_keys(float scale, device::Accumulator<kRows, kKeys>& rS,
                                device::RowStates<kRows>& rows) {
  device::for_own_rows<kRows>(
      [&](i32 r, i32 half) { rows.at[r][half].max = device::row_maximum(rS, r, half) * scale; });
  device::for_own_rows<kRows>([&](i32 r, i32 half) {
    float sum = device::exponentiate_row(rS, r, half, scale, finite_max(rows.at[r][half].max));
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    rows.at[r][half].sum = sum;
  });
}

__device__ inline ForwardBlock forward_block(const Params& params, const Workspace& workspace,
                                             const ForwardConfig& config) {
  const Shape& shape = params.shape;
  const i64 batch = blockIdx.x / static_cast<u32>(shape.num_heads_q);
  const i64 head = blockIdx.x % static_cast<u32>(shape.num_heads_q);
  const i32 m_blocks = static_cast<i32>(ceil_div<i64>(shape.seqlen_q, config.block_m));
  const BatchEntry entry = batch_entry(params, batch);
  return {.mask = entry.mask,
          .visits = workspace.visits + batch * m_blocks,
          .m_blocks = m_blocks,
          .batch = batch,
          .slice = blockIdx.x,
          .row_offset = shape.q.offset(batch, head, entry.first_row),
          .key_offset = shape.k.offset(batch, shape.kv_head(head), entry.first_key),
          .statistics = shape.row_statistic_offset(batch, head, 0)};
}

// Returns the first tile of keys from n_block on that any row sees, or the one past the last.
__device__ inline KeyTile seen_keys(const Params& params, const Workspace& workspace,
                                    const ForwardConfig& config, const ForwardBlock& block,
                                    i32 n_block) {
  for (;; ++n_block) {
    const KeyTile keys = key_tile(params, workspace, config, block, n_block);
    if (keys.tiles.begin < keys.tiles.end || keys.first_key >= block.mask.valid_k) return keys;
  }
}

// Runs all of Algorithm 1. It is long because little can leave it: as parts of ForwardTeam,
// ForwardShare or CrossWarpReduction, `split`, the share's offset and the buffers give NVRTC 13.0
// other address computations, and ptxas other registers.
template <class T, ForwardConfig kConfig>
__device__ void forward(const ForwardArguments<T>& arguments) {
  using namespace device;
  const Params& params = arguments.params;
  const Workspace& workspace = arguments.workspace;
  const auto [gQ, gK, gV, gO, gLse] = arguments.tensors;
  constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  constexpr i32 kThreads = kConfig.warps() * kWarp;
  constexpr i32 kSplits = kConfig.splits;
  constexpr i32 kTeamThreads = kSplits * kWarp;
  constexpr i32 kRows = kConfig.slice_rows / 16;       // fragments of a slice's rows
  constexpr i32 kKeys = kConfig.warp_keys() / 16;      // fragments of a warp's keys
  constexpr i32 kColumnSteps = kConfig.head_dim / 16;  // fragments of a head
  constexpr i32 kBlocks = kConfig.columns / 8;  // blocks of columns that are combined at once
  using Share = ForwardShare<kConfig>;
  constexpr i32 kOwnRows = Share::kOwnRows, kOwnBlocks = Share::kOwnBlocks;
  constexpr i32 kChunks = kConfig.chunks();
  constexpr bool kKeepsO = kConfig.keeps_o;

  extern __shared__ __align__(128) u8 shared_memory[];
  const u32 shared = ptx::cvta_to_shared(shared_memory);
  const auto at = [&](i32 offset) { return shared + static_cast<u32>(offset); };
  auto& sBlock = *reinterpret_cast<ForwardBlock*>(shared_memory + kTiles.block());
  const Shape& shape = params.shape;
  bool beyond_lse = false;
  const i32 head_dim = static_cast<i32>(shape.head_dim);
  if (threadIdx.x == 0) {
    sBlock = forward_block(params, workspace, kConfig);
    sBlock.next_keys = seen_keys(params, workspace, kConfig, sBlock, 0);
  }
  __syncthreads();
  finish_unseen<kConfig.warps()>(sBlock.visits, sBlock.mask, kConfig.block_m,
                                 gO + sBlock.row_offset, shape.q.row, head_dim, [&](i64 row) {
                                   gLse[sBlock.statistics + row] = -kInfinity;
                                   if (!workspace.saves) return;
                                   // Tiles of the backward may have such rows.
                                   workspace.m[sBlock.statistics + row] = -kInfinity;
                                   workspace.l[sBlock.statistics + row] = 0.0f;
                                 });

  const ForwardTeam<kConfig> team(shared_memory, shared);
  const i32 split = static_cast<i32>(threadIdx.x) / kWarp % kSplits;
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const i32 own_row = kOwnRows < kRows ? 16 * split : 0;
  const i32 own_block = split * kOwnBlocks % kBlocks;
  const Share share = {own_row, own_block, Share::offset_of(own_row / 16, own_block) + lane * 4};
  i32 parity = 0;  // of the slice: which buffers the reduction takes
  auto& sKeys = *reinterpret_cast<KeyTile*>(team.memory + kTiles.keys_of(0));  // a copy a team
  for (;;) {                                                                   // line 5
    // All are done with the tile of keys before. This orders m and l, too: one lane of four, and of
    // slices of 16 rows one warp, stored what all lanes that combine the row load at this tile.
    __syncthreads();
    if (team.thread == 0) sKeys = sBlock.next_keys;
    __syncthreads();
    if (sKeys.first_key >= sBlock.mask.valid_k) break;
    const auto next_of_team = [&](i32 m_block) {
      return sKeys.tiles.not_empty(m_block + kConfig.teams, kConfig.teams);
    };
    const auto load_q = [&](i32 m_block, i32 stage) {
      const i32 first_row = m_block * kConfig.block_m;
      load_tile<kTiles.q, kTeamThreads>(gQ + sBlock.row_offset + first_row * shape.q.row,
                                        shape.q.row,
                                        static_cast<i32>(sBlock.mask.seqlen_q) - first_row,
                                        head_dim, team.at(kTiles.q_of(0, stage)), team.thread);
    };

    // Line 6 loads K, V and the team's first Q. A team has every `teams`-th tile of rows, the same
    // under every tile of keys, so that each thread reads back the O that it wrote itself.
    const i32 valid = static_cast<i32>(sBlock.mask.valid_k - sKeys.first_key);
    load_tile<kTiles.kv, kThreads>(gK + sKeys.key_offset, shape.k.row, valid, head_dim,
                                   at(kTiles.k()));
    load_tile<kTiles.kv, kThreads>(gV + sKeys.key_offset, shape.k.row, valid, head_dim,
                                   at(kTiles.v()));
    const i32 begin = sKeys.tiles.begin;
    const i32 to_own = (team.team - begin % kConfig.teams + kConfig.teams) % kConfig.teams;
    i32 ahead = sKeys.tiles.not_empty(begin + to_own, kConfig.teams);
    RowVisits ahead_visits;
    if (ahead < sKeys.tiles.end) {
      load_q(ahead, 0);
      ahead_visits = sBlock.visits[ahead];
    }
    ptx::cp_async_commit_group();
    // Meanwhile one thread looks up the next tile of keys.
    if (threadIdx.x == 0) {
      sBlock.next_keys = seen_keys(params, workspace, kConfig, sBlock, sKeys.n_block + 1);
    }
    ptx::cp_async_wait_group<0>();
    __syncthreads();
    const KMajorB<kTiles.kv> k(at(kTiles.k()), split * kConfig.warp_keys(), 0);
    const bool own_columns_first = kOwnBlocks == kBlocks || split == 0;
    const MnMajorB<kTiles.kv> v(at(kTiles.v()), split * kConfig.warp_keys(), 0,
                                own_columns_first ? PairOrder::in_order : PairOrder::swapped);

    for (i32 stage = 0; ahead < sKeys.tiles.end; stage ^= 1) {  // line 7
      const i32 m_block = ahead;
      const i32 first_row = m_block * kConfig.block_m;
      const bool is_first = ahead_visits.first == sKeys.n_block;
      const bool is_last = ahead_visits.last == sKeys.n_block;
      float* const gSums = workspace.sums + (sBlock.slice * sBlock.m_blocks + m_block) *
                                                (kConfig.block_m * kConfig.head_dim);
      const RunningO<kConfig> running_o = {share, gSums};
      // Line 8 loads the running O, which is needed when P V is complete: each thread copies what
      // it will combine itself. Q is that of the next step.
      if (!kKeepsO && !is_first) running_o.load_async(team.at(kTiles.o_of(0)));
      ptx::cp_async_commit_group();
      ahead = next_of_team(m_block);
      if (ahead < sKeys.tiles.end) {
        load_q(ahead, stage ^ 1);
        ahead_visits = sBlock.visits[ahead];
      }
      ptx::cp_async_commit_group();

#pragma unroll 1
      for (i32 row = 0; row < kConfig.block_m; row += kConfig.slice_rows) {
        const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row - row;
        if (exist <= 0) break;

        RowStates<kOwnRows> running_states;
        const RunningStatistics<kConfig> statistics = {
            workspace, sBlock.statistics + first_row + row + share.row + lane / 4, share.row, exist,
            lane};
        statistics.load(is_first, running_states);

        // Where shared memory has no room for it, the running O arrives in registers.
        float4 rRunningO[kOwnRows][kChunks * kOwnBlocks];
        if (kKeepsO && !is_first) running_o.load(row, rRunningO);

        // Lines 9 and 10 take this warp's keys.
        const u32 sQ = team.at(kTiles.q_of(0, stage));
        const KMajorA<kTiles.q> own_q(sQ, row + share.row_of(0), 0);
        const KMajorA<kTiles.q> sent_q(sQ, row + share.row_of(kRows - 1), 0);
        Accumulator<kRows, 2 * kKeys> rS;
        rS.clear();
        multiply_add<T, kColumnSteps>(  // S = Q K^T
            rS,
            [&](i32 r, i32 piece) { return fragment_a(r == 0 ? own_q : sent_q, 0, 16 * piece); },
            [&](i32 piece, i32 key) { return fragment_b(k, 16 * piece, 16 * key); });
        const i64 warp_key = sKeys.first_key + split * kConfig.warp_keys();
        if (sKeys.tiles.is_partial(m_block)) {
#pragma unroll
          for (i32 r = 0; r < kRows; ++r) {
            for_hidden<1, 2 * kKeys>(sBlock.mask, first_row + row + share.row_of(r), warp_key,
                                     [&](i32, i32 c, i32 i) { rS.at[r][c][i] = -kInfinity; });
          }
        }
        RowStates<kRows> partial_states;
        softmax_of_keys(shape.softmax_scale_log2, rS, partial_states);
        const CrossWarpReduction<kConfig> reduction(team, parity);
        reduction.send_statistics(partial_states);
        FragmentA rP[kRows][kKeys];
        for_blocks<kRows, kKeys>([&](i32 r, i32 key) { rP[r][key] = fragment_a<T>(rS, r, key); });
        if constexpr (kConfig.dropout) {
          for_blocks<kRows, kKeys>([&](i32 r, i32 key) {
            clear_dropped(rP[r][key],
                          kept_bits(params.dropout, sBlock.slice, first_row + row + share.row_of(r),
                                    warp_key + 16 * key));
          });
        }

        const auto multiply_columns = [&](i32 column, Accumulator<kRows, kBlocks>& sums) {
          sums.clear();
          multiply_add<T, kKeys>(  // P V
              sums, [&](i32 r, i32 key) { return rP[r][key]; },
              [&](i32 key, i32 c) { return fragment_b(v, 16 * key, column + 16 * c); });
        };
        Accumulator<kRows, kBlocks> rPV;
        multiply_columns(0, rPV);
        Weights<kSplits> weights[kOwnRows][2];
#pragma unroll
        for (i32 column = 0; column < kConfig.head_dim; column += kConfig.columns) {
          const i32 chunk = column / kConfig.columns;
          // Chunks alternate between two buffers. An odd number of them would end a slice and begin
          // the next one in the same buffer, so there slices alternate, too.
          const i32 buffer = kChunks % 2 == 0 ? chunk % 2 : (chunk + parity) % 2;
          u8* const sPartialO = shared_memory + team.shift + kTiles.partial_o_of(0) +
                                buffer * kSplits * CrossWarpReduction<kConfig>::kShareBytes +
                                lane * 16;
          Accumulator<kOwnRows, kOwnBlocks> rOwnPV;
          for_blocks<kOwnRows, kOwnBlocks>([&](i32 r, i32 block) {
#pragma unroll
            for (i32 i = 0; i < 4; ++i) rOwnPV.at[r][block][i] = rPV.at[r][block][i];
            if constexpr (kSplits > 1) {
              reduction.send_partial_o(sPartialO, r, block,
                                       rPV.at[Share::kSentRow + r][Share::kSentBlock + block]);
            }
          });
          // Multiplies the next columns before the team waits for these.
          if (chunk < kChunks - 1) multiply_columns(column + kConfig.columns, rPV);
          // Waits for O, at last for the next step's Q, too; the barrier then shows it to the team.
          if (chunk == 0) ptx::cp_async_wait_group<1>();
          if (chunk == kChunks - 1) ptx::cp_async_wait_group<0>();
          team.sync();  // what the others send is there
          if (column == 0) {
            for_own_rows<kOwnRows>([&](i32 r, i32 half) {
              OnlineSoftmax partial[kSplits] = {partial_states.at[r][half]};
              if constexpr (kSplits > 1) partial[1] = reduction.other_statistics(r, half);
              weights[r][half] =
                  combine(running_states.at[r][half], partial, params.dropout.keep_scale);
            });
          }
          // Line 12 combines this warp's share.
          Accumulator<kOwnRows, kOwnBlocks> rO;
          for_blocks<kOwnRows, kOwnBlocks>([&](i32 r, i32 block) {
            const i32 offset = share.offset + Share::offset_of(row / 16 + r, column / 8 + block);
            float(&o)[4] = rO.at[r][block];
#pragma unroll
            for (float& value : o) value = 0.0f;
            if (!is_first) {
              const float4 running =
                  kKeepsO
                      ? rRunningO[r][chunk * kOwnBlocks + block]
                      : *reinterpret_cast<const float4*>(team.memory + kTiles.o_of(0) + 4 * offset);
              o[0] = running.x * weights[r][0].running;
              o[1] = running.y * weights[r][0].running;
              o[2] = running.z * weights[r][1].running;
              o[3] = running.w * weights[r][1].running;
            }
#pragma unroll
            for (i32 i = 0; i < 4; ++i) {
              o[i] += rOwnPV.at[r][block][i] * weights[r][i / 2].partial[0];
            }
            if constexpr (kSplits > 1) {
              const float4 other = reduction.other_partial_o(sPartialO, r, block);
              o[0] += other.x * weights[r][0].partial[1];
              o[1] += other.y * weights[r][0].partial[1];
              o[2] += other.z * weights[r][1].partial[1];
              o[3] += other.w * weights[r][1].partial[1];
            }
            if (!is_last) {
              *reinterpret_cast<float4*>(gSums + offset) = {o[0], o[1], o[2], o[3]};
            }
          });
          // The last O goes out through the rows of Q, which the team no longer reads.
          if (is_last) {
            for_own_rows<kOwnRows>([&](i32 r, i32 half) {
              take_in_output(running_states.at[r][half], rO.at[r][0][2 * half]);
            });
            store_accumulator<T, kTiles.q>(rO, team.at(kTiles.q_of(0, stage)), row + share.row,
                                           column + 8 * share.block);
          }
        }

        // Line 13: warp 0 alone stores rows of 16-row slices, which both combine; else both store.
        if (split * kRows % kSplits == 0 && lane % 4 == 0) {
          for_own_rows<kOwnRows>([&](i32 r, i32 half) {
            const i32 below = 16 * r + 8 * half;
            if (!statistics.exists(below)) return;
            const i64 place = statistics.first + below;
            if (!is_last || workspace.saves) {
              workspace.m[place] = running_states.at[r][half].max;
              workspace.l[place] = running_states.at[r][half].sum;
            }
            if (!is_last) return;
            const float row_lse = lse_or_mark(running_states.at[r][half]);
            gLse[place] = row_lse;
            beyond_lse |= !lse_holds(row_lse);
          });
        }
        parity ^= 1;
        if (is_last) {
          team.sync();  // O of all columns is there
          constexpr i32 kWarpRows = kConfig.slice_rows / kSplits;
          const i32 first = row + split * kWarpRows;
          store_rows<kTiles.q, kWarpRows>(
              team.memory + kTiles.q_of(0, stage), first, min(kWarpRows, exist - split * kWarpRows),
              gO + sBlock.row_offset + (first_row + first) * shape.q.row, shape.q.row, head_dim);
          team.sync();  // Q of the step after the next comes to the same place
        }
      }
    }
  }
  // Handles rare cases: logits that lse does not hold, which the backward asks for, and lost rows.
  beyond_lse = __syncthreads_or(beyond_lse) != 0;
  if (workspace.saves && threadIdx.x == 0) workspace.beyond_lse[sBlock.slice] = beyond_lse ? 1 : 0;
  if (!beyond_lse) return;
  const i64 head = sBlock.slice % shape.num_heads_q;
  const i64 first = threadIdx.x / kWarp;
  attend_again<Scores::by_mma_sync>(params, sBlock.batch, head, {first, sBlock.mask.seqlen_q},
                                    kThreads / kWarp, gQ, gK, gV, gO, gLse,
                                    [&](i64 row, const OnlineSoftmax& state) {
                                      if (!workspace.saves) return;
                                      workspace.m[sBlock.statistics + row] = state.max;
                                      workspace.l[sBlock.statistics + row] = state.sum;
                                    });
}

}  // namespace attnlab::v1
