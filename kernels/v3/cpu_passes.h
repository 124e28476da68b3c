// Declares the two passes of v3 on the CPU, which cpu.cpp launches and counts, and its tests break.
#pragma once

#include <array>
#include <span>

#include "kernels/cpu/dq_sums.h"
#include "kernels/cpu/roles.h"
#include "kernels/cpu/runner.h"
#include "kernels/cpu/saved_softmax.h"
#include "kernels/v3/cpu_schedule.h"

namespace attnlab::v3 {

// Work holds what all work items of a launch share.
struct Work {
  const Problem& problem;
  Shape shape;
  Tiling tiling;  // block_m, block_n of one consumer
  i32 stages = 2;
  u64 schedule_seed = 0;
  Dropout dropout;
  cpu::SavedSoftmax saved;
};

// StageTiles has one tile for each stage of a ring.
using StageTiles = std::array<cpu::Tile, cpu::Ring::kMaxStages>;
StageTiles carve_stages(cpu::TileCarver& carver, i32 stages, i64 rows, i64 columns);
inline const cpu::Tile& at(const StageTiles& tiles, i32 stage) {
  return tiles[static_cast<std::size_t>(stage)];
}

// Returns the part of a tile that holds consumer c's rows: each has `rows` of them.
cpu::Tile part_of_pair(const cpu::Tile& pair, i32 consumer, i64 rows);

// ForwardMemory is the fast memory of one worker in the forward.
struct ForwardMemory {
  cpu::Tile sQ;                    // (2 * block_m, head_dim), reused for O on its way out
  StageTiles sK;                   // (block_n, head_dim)
  StageTiles sV;                   // (block_n, head_dim)
  struct Consumer {                // on a GPU these are registers
    cpu::Tile sQt;                 // (head_dim, block_m)
    std::array<cpu::Tile, 2> sSt;  // (block_n, block_m), scores, then probabilities, alternately
    cpu::Tile sOt;                 // (head_dim, block_m), unnormalised
    cpu::Tile sMax;                // (1, block_m)
    cpu::Tile sSum;                // (1, block_m)
    cpu::Tile sRescale;            // (1, block_m)
  };
  std::array<Consumer, kConsumers> consumers;
};
ForwardMemory carve_forward(cpu::TileCarver& carver, const Work& work);

// Does one work item: O and lse of a pair of tiles of query rows. Throws cpu::RoleFault.
void forward(const Work& work, const cpu::SliceTensors& slice, i64 m_pair,
             const ForwardMemory& fast, cpu::Executor& executor, const cpu::Probe& probe = {});

// BackwardMemory is the fast memory of one worker in the backward.
struct BackwardMemory {
  cpu::Tile sK;       // (2 * block_n, head_dim), resident
  cpu::Tile sV;       // (2 * block_n, head_dim), until it is transposed
  StageTiles sQ;      // (block_m, head_dim)
  StageTiles sMax;    // (1, block_m), comes with Q
  StageTiles sSum;    // (1, block_m), comes with Q
  StageTiles sDO;     // (block_m, head_dim)
  StageTiles sDelta;  // (1, block_m), comes with dO
  StageTiles sDQ;     // (block_m, head_dim), of both consumers, on its way to HBM
  struct Consumer {
    cpu::Tile sKt;  // (head_dim, block_n)
    cpu::Tile sVt;  // (head_dim, block_n)
    cpu::Tile sP;   // (block_m, block_n), S, then P
    cpu::Tile sDS;  // (block_m, block_n), dP, then dS
    cpu::Tile sDK;  // (block_n, head_dim)
    cpu::Tile sDV;  // (block_n, head_dim)
  };
  std::array<Consumer, kConsumers> consumers;
};
BackwardMemory carve_backward(cpu::TileCarver& carver, const Work& work);

// Returns the part of it that the passes over rows use.
cpu::DqSums::RowTiles row_tiles(const BackwardMemory& fast);

// Does one work item: the dK and dV of a pair of tiles of keys, from the query heads that share its
// K/V head; what it owes to dQ goes to the sums in HBM. Throws cpu::RoleFault.
void backward(const Work& work, cpu::DqSums& dq_sums, std::span<const cpu::SliceTensors> group,
              i64 n_pair, const BackwardMemory& fast, cpu::Executor& executor,
              const cpu::Probe& probe = {});

}  // namespace attnlab::v3
