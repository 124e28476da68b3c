// Says how a block of v1's backward divides its work: what it has to do, its steps, its teams, and
// the parts of their warps.
#pragma once

#include "kernels/device/warp_part.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/shared/params.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// BackwardParts says which warp has which part of the products.
template <BackwardConfig kConfig>
struct BackwardParts {
  static constexpr i32 kWarps = kConfig.team_warps(), kTeams = kConfig.teams;
  static constexpr i32 kKeys = kConfig.block_n, kRows = kConfig.block_m, kDim = kConfig.head_dim;
  static constexpr WarpGrid kOfScores =
      kConfig.p_in_registers() ? WarpGrid{kWarps, 1} : warp_grid(kWarps, kKeys, kRows);
  static constexpr WarpGrid kOfKeys =
      kConfig.p_in_registers() ? kOfScores : warp_grid(kWarps, kKeys, kDim);
  // This is of S^T and dP^T.
  using TransposedScores = device::TransposedScoresPart<kOfScores, kKeys, kRows, kTeams>;
  using Keys = device::WarpPart<kOfKeys, kKeys, kDim, kTeams>;                         // dK, dV
  using Rows = device::WarpPart<warp_grid(kWarps, kRows, kDim), kRows, kDim, kTeams>;  // dQ
};

// BackwardTeam is a team of warps as one of its threads sees it: its shared memory and its barrier.
template <BackwardConfig kConfig>
struct BackwardTeam {
  static constexpr i32 kThreads = kConfig.team_warps() * device::kWarp;
  i32 team;
  i32 thread;  // of the team
  i32 shift;   // from the first team's part
  u8* memory;  // the block's, shifted to the team's part
  u32 shared;  // address of the block's

  __device__ BackwardTeam(u8* shared_memory, u32 address) : shared(address) {
    const i32 of_block = static_cast<i32>(threadIdx.x);
    // It is broadcast: a compiler that does not know it as warp-uniform runs out of registers.
    team = kConfig.teams == 1 ? 0 : __shfl_sync(0xFFFFFFFFu, of_block / kThreads, 0);
    thread = kConfig.teams == 1 ? of_block : of_block % kThreads;
    shift = team == 0 ? 0 : backward_tiles(kConfig).team_bytes();
    memory = shared_memory + shift;
  }
  __device__ u32 at(i32 offset) const {
    return shared + static_cast<u32>(offset) + static_cast<u32>(shift);
  }
  __device__ void sync() const {
    if constexpr (kConfig.teams == 1) {
      __syncthreads();
    } else {
      ptx::barrier_sync(1 + team, kThreads);
    }
  }
};

// BackwardStep is a step of the inner loop: a tile of rows of one of the query heads.
struct BackwardStep {
  i32 m_block = 0;
  i32 head = 0;

  // Returns the team's next step.
  __device__ BackwardStep next(const KeyTile& keys, i32 teams) const {
    const i32 below = keys.tiles.not_empty(m_block + teams, teams);
    return below < keys.tiles.end ? BackwardStep{below, head}
                                  : BackwardStep{keys.first_own, head + 1};
  }
};

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

// Returns whether lse does not hold the logits of one of the block's heads.
__device__ inline bool is_beyond_lse(const Workspace& workspace, const BackwardBlock& block) {
  bool beyond_lse = false;
  for (i32 head = 0; head < block.heads; ++head) {
    beyond_lse |= workspace.beyond_lse[block.first_slice + head] != 0;
  }
  return beyond_lse;
}

// Load a warp's part of sums from memory, where they lie in the order of its registers, or store it
// there.
template <class Part>
__device__ void load_sums(const float* gSums, typename Part::Accumulator& sums) {
  device::for_places<Part>(sums, [&](float(&sum)[4], i32 place) {
    const auto old = *reinterpret_cast<const float4*>(gSums + place);
    sum[0] = old.x;
    sum[1] = old.y;
    sum[2] = old.z;
    sum[3] = old.w;
  });
}
template <class Part>
__device__ void store_sums(const typename Part::Accumulator& sums, float* gSums) {
  device::for_places<Part>(sums, [&](const float(&sum)[4], i32 place) {
    *reinterpret_cast<float4*>(gSums + place) = {sum[0], sum[1], sum[2], sum[3]};
  });
}

}  // namespace attnlab::v1
