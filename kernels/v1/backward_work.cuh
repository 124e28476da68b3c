// Does v1's backward's work beside the products: tiles come and go, two teams add up dK and dV.
#pragma once

#include "kernels/ptx/prefetch.cuh"
#include "kernels/shared/params.h"
#include "kernels/v1/backward_parts.cuh"

namespace attnlab::v1 {

// BackwardWork holds what a block or a team does beside the products, one function a part.
template <class T, BackwardConfig kConfig>
struct BackwardWork {
  using Keys = typename BackwardParts<kConfig>::Keys;
  using Rows = typename BackwardParts<kConfig>::Rows;
  static constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  static constexpr i32 kThreads = kBackwardWarps * device::kWarp;
  static constexpr i32 kTeamThreads = kConfig.team_warps() * device::kWarp;

  const Params& params;
  const Workspace& workspace;
  decltype(BackwardArguments<T>::tensors) tensors;
  BackwardTeam<kConfig> team;
  const BackwardBlock& sBlock;
  const KeyTile& sKeys;
  i32 head_dim;

  // Goes to the next tile of keys. A team has each tile of rows that is its own among as many,
  // under every tile of keys: what it wrote of dQ it reads back itself.
  __device__ void take_keys(KeyTile& sNext) const {
    sNext = sBlock.next_keys;
    const i32 begin = sNext.tiles.begin;
    const i32 to_own = (team.team - begin % kConfig.teams + kConfig.teams) % kConfig.teams;
    sNext.first_own = sNext.tiles.not_empty(begin + to_own, kConfig.teams);
  }

  // Line 7: starts the copies of K and V.
  __device__ void load_keys(u32 sK, u32 sV) const {
    const Shape& shape = params.shape;
    const i32 valid = static_cast<i32>(sBlock.mask.valid_k - sKeys.first_key);
    device::load_tile<kTiles.kv, kThreads>(tensors.gK + sKeys.key_offset, shape.k.row, valid,
                                           head_dim, sK);
    device::load_tile<kTiles.kv, kThreads>(tensors.gV + sKeys.key_offset, shape.k.row, valid,
                                           head_dim, sV);
  }

  // Starts the copy of a step's rows of q, o or dO to one of the team's buffers.
  __device__ void load_tile_of_rows(const BackwardStep& step, const T* gRows, i32 tile) const {
    const Shape& shape = params.shape;
    const i32 first_row = step.m_block * kConfig.block_m;
    const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row;
    const i64 offset = sBlock.row_offset + step.head * shape.q.head + first_row * shape.q.row;
    device::load_tile<kTiles.q, kTeamThreads>(gRows + offset, shape.q.row, exist, head_dim,
                                              team.at(tile), team.thread);
  }
  // Starts line 10's copies, all but O, whose one buffer is in use until D of this step is known.
  __device__ void load_rows(const BackwardStep& step, i32 stage) const {
    load_tile_of_rows(step, tensors.gQ, kTiles.q_of(stage));
    load_tile_of_rows(step, tensors.gDO, kTiles.dout_of(stage));
    const i32 first_row = step.m_block * kConfig.block_m;
    const i64 statistics = sBlock.statistics + step.head * params.shape.seqlen_q + first_row;
    if (team.thread < 2) {  // the first and the last tile of keys that visits them
      ptx::cp_async_ca_4(team.at(kTiles.visits_of(stage)) + 4 * team.thread,
                         reinterpret_cast<const i32*>(sBlock.visits + step.m_block) + team.thread,
                         4);
    }
    for (i32 row = team.thread; row < kConfig.block_m; row += kTeamThreads) {
      const u32 bytes = first_row + row < sBlock.mask.seqlen_q ? 4 : 0;
      ptx::cp_async_ca_4(team.at(kTiles.m_of(stage)) + 4 * row, workspace.m + statistics + row,
                         bytes);
      ptx::cp_async_ca_4(team.at(kTiles.l_of(stage)) + 4 * row, workspace.l + statistics + row,
                         bytes);
    }
  }

  // Returns where the dQ of a step's rows is summed.
  __device__ float* sums_of_rows(const BackwardStep& step) const {
    const i64 tile = (sBlock.first_slice + step.head) * sBlock.m_blocks + step.m_block;
    return workspace.sums + tile * (kConfig.block_m * kConfig.head_dim);
  }
  __device__ void prefetch_sums(const BackwardStep& step) const {
    constexpr i32 kLine = kLineBytes / 4;
    const float* const gOld = sums_of_rows(step);
    for (i32 i = team.thread * kLine; i < kConfig.block_m * kConfig.head_dim;
         i += kTeamThreads * kLine) {
      ptx::prefetch_global_l2(gOld + i);
    }
  }

  // Stores dQ of a step by way of the tile of Q.
  __device__ void store_dq(typename Rows::Accumulator& rDQ, const BackwardStep& step, i32 first_row,
                           i32 stage, u32 sQ) const {
    const Shape& shape = params.shape;
    team.sync();  // all are done with it
    rDQ.scale(shape.softmax_scale);
    device::store_accumulator<T, kTiles.q>(rDQ, sQ, Rows::row(), Rows::column());
    team.sync();
    constexpr i32 kWarpRows = kConfig.block_m / kConfig.team_warps();
    const i32 own = team.thread / device::kWarp * kWarpRows;
    const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row - own;
    device::store_rows<kTiles.q, kWarpRows>(
        team.memory + kTiles.q_of(stage), own, min(kWarpRows, exist),
        tensors.gDQ + sBlock.row_offset + step.head * shape.q.head +
            (first_row + own) * shape.q.row,
        shape.q.row, head_dim);
  }

  // Adds up dK or dV of two teams: one completes dK with what the other sends of it, the other dV.
  __device__ void add_teams(typename Keys::Accumulator& rDK, typename Keys::Accumulator& rDV,
                            u8* shared_memory, bool has_dk, bool has_dv) const {
    static_assert(kTiles.sends(), "a team sends by way of its buffers for rows");
    auto* const sSent = reinterpret_cast<float*>(team.memory + kTiles.q_of(0));
    const auto* const sArrived = reinterpret_cast<const float*>(
        shared_memory + (kTiles.team_bytes() - team.shift) + kTiles.q_of(0));
    const auto add_arrived = [&](typename Keys::Accumulator& sums) {
      device::for_places<Keys>(sums, [&](float(&sum)[4], i32 place) {
        const auto other = *reinterpret_cast<const float4*>(sArrived + place);
        sum[0] += other.x;
        sum[1] += other.y;
        sum[2] += other.z;
        sum[3] += other.w;
      });
    };
    if (has_dk) store_sums<Keys>(rDV, sSent);
    if (has_dv) store_sums<Keys>(rDK, sSent);
    __syncthreads();
    __syncthreads();  // racecheck does not see the first one, TUNING.md says why
    if (has_dk) add_arrived(rDK);
    if (has_dv) add_arrived(rDV);
  }

  // Line 24: stores dK and dV by way of the tiles of K and V.
  __device__ void store_keys(typename Keys::Accumulator& rDK, typename Keys::Accumulator& rDV,
                             u8* shared_memory, u32 sK, u32 sV) const {
    const Shape& shape = params.shape;
    __syncthreads();  // all are done with the tiles, and with rows
    const bool has_dk = kConfig.teams == 1 || team.team == 0,
               has_dv = kConfig.teams == 1 || team.team == 1;
    if constexpr (kConfig.teams > 1) add_teams(rDK, rDV, shared_memory, has_dk, has_dv);
    if (has_dk) {
      rDK.scale(shape.softmax_scale);
      device::store_accumulator<T, kTiles.kv>(rDK, sK, Keys::row(), Keys::column());
    }
    if (has_dv) {
      rDV.scale(params.dropout.keep_scale);
      device::store_accumulator<T, kTiles.kv>(rDV, sV, Keys::row(), Keys::column());
    }
    __syncthreads();
    constexpr i32 kWarpKeys = kConfig.block_n / kConfig.team_warps();
    const i32 own = team.thread / device::kWarp * kWarpKeys;
    const i32 exist = static_cast<i32>(sBlock.mask.seqlen_k - sKeys.first_key) - own;
    const auto store = [&](i32 tile, T* gKeys) {
      device::store_rows<kTiles.kv, kWarpKeys>(shared_memory + tile, own, min(kWarpKeys, exist),
                                               gKeys + sKeys.key_offset + own * shape.k.row,
                                               shape.k.row, head_dim);
    };
    if (has_dk) store(kTiles.k(), tensors.gDK);
    if (has_dv) store(kTiles.v(), tensors.gDV);
  }
};

}  // namespace attnlab::v1
