// Declares the two passes of v2 on the CPU, which cpu.cpp launches and counts.
#pragma once

#include <span>

#include "kernels/cpu/dq_sums.h"
#include "kernels/cpu/runner.h"
#include "kernels/cpu/saved_softmax.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// Work holds what all work items of a launch share.
struct Work {
  const Problem& problem;
  Shape shape;
  Tiling tiling;
  Dropout dropout;
  cpu::SavedSoftmax saved;
};

// ForwardMemory is the fast memory of one worker in the forward.
struct ForwardMemory {
  cpu::Tile sQ;        // (block_m, head_dim), reused for O on its way out
  cpu::Tile sQt;       // (head_dim, block_m)
  cpu::Tile sKV;       // (block_n, head_dim), K first, then V
  cpu::Tile sSt;       // (block_n, block_m), scores, then probabilities
  cpu::Tile sOt;       // (head_dim, block_m), unnormalised
  cpu::Tile sMax;      // (1, block_m)
  cpu::Tile sSum;      // (1, block_m)
  cpu::Tile sRescale;  // (1, block_m)
};
ForwardMemory carve_forward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim);

// Does one work item: the O and lse of one tile of query rows.
void forward(const Work& work, const cpu::SliceTensors& slice, i64 m_block,
             const ForwardMemory& fast, cpu::Executor& executor);

// BackwardMemory is the fast memory of one worker in the backward.
struct BackwardMemory {
  cpu::Tile sQ;      // (block_m, head_dim)
  cpu::Tile sDO;     // (block_m, head_dim)
  cpu::Tile sDQ;     // (block_m, head_dim)
  cpu::Tile sK;      // (block_n, head_dim)
  cpu::Tile sKt;     // (head_dim, block_n)
  cpu::Tile sVt;     // (head_dim, block_n)
  cpu::Tile sP;      // (block_m, block_n), S, then P
  cpu::Tile sDS;     // (block_m, block_n), dP, then dS
  cpu::Tile sDK;     // (block_n, head_dim)
  cpu::Tile sDV;     // (block_n, head_dim), V on its way to sVt
  cpu::Tile sMax;    // (1, block_m)
  cpu::Tile sSum;    // (1, block_m)
  cpu::Tile sDelta;  // (1, block_m)
};
BackwardMemory carve_backward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim);

// Returns the part of it that the passes over rows use.
cpu::DqSums::RowTiles row_tiles(const BackwardMemory& fast);

// Does one work item: the dK and dV of one tile of keys, from the query heads that share its K/V
// head; what it owes to dQ goes to the sums in HBM.
void backward(const Work& work, cpu::DqSums& dq_sums, std::span<const cpu::SliceTensors> group,
              i64 n_block, const BackwardMemory& fast, cpu::Executor& executor);

}  // namespace attnlab::v2
