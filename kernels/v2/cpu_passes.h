// The two passes of v2 on the CPU: what cpu.cpp launches and counts.
#pragma once

#include <span>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/dq_turns.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// What all work items of a launch share.
struct Work {
  const Problem& problem;
  const Shape& shape;
  Tiling tiling;
  Dropout dropout;
};

// The fast memory of one worker, forward.
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

// One work item: the O and lse of one tile of query rows.
void forward(const Work& work, const Mask& mask, const cpu::SliceTensors& slice, i64 m_block,
             const ForwardMemory& fast, cpu::Executor& executor);

// The fast memory of one worker, backward.
struct BackwardMemory {
  cpu::Tile sQ;      // (block_m, head_dim), O in the pre-pass
  cpu::Tile sDO;     // (block_m, head_dim)
  cpu::Tile sDQ;     // (block_m, head_dim)
  cpu::Tile sK;      // (block_n, head_dim)
  cpu::Tile sKt;     // (head_dim, block_n)
  cpu::Tile sVt;     // (head_dim, block_n)
  cpu::Tile sP;      // (block_m, block_n), S, then P
  cpu::Tile sDS;     // (block_m, block_n), dP, then dS
  cpu::Tile sDK;     // (block_n, head_dim)
  cpu::Tile sDV;     // (block_n, head_dim), V on its way to sVt
  cpu::Tile sLse;    // (1, block_m)
  cpu::Tile sDelta;  // (1, block_m)
};
BackwardMemory carve_backward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim);

// What the work items of one backward pass share beyond Work.
struct BackwardState {
  float* delta = nullptr;         // (batch, num_heads_q, seqlen_q), fp32 in HBM
  float* dq_sum = nullptr;        // (batch, num_heads_q, seqlen_q, head_dim), fp32 in HBM
  cpu::DqTurns* turns = nullptr;  // null: one thread, nobody to wait for
  bool deterministic = false;     // dQ's sums are formed in the order of the key tiles
};

// Pre-pass for one tile of query rows: delta = rowsum(dO * O); the sums of dQ start at 0.
void prepare_rows(const Work& work, const BackwardState& state, const Mask& mask,
                  const cpu::SliceTensors& slice, i64 m_block, const BackwardMemory& fast,
                  cpu::Executor& executor);

// One work item: the dK and dV of one tile of keys, from the query heads that share its K/V head;
// what it owes to dQ is added to the sums in HBM.
void backward(const Work& work, const BackwardState& state, const Mask& mask,
              std::span<const cpu::SliceTensors> group, i64 n_block, const BackwardMemory& fast,
              cpu::Executor& executor);

// Last pass for one tile of query rows: dQ = softmax_scale * sum, in the storage type.
void finish_rows(const Work& work, const BackwardState& state, const Mask& mask,
                 const cpu::SliceTensors& slice, i64 m_block, const BackwardMemory& fast,
                 cpu::Executor& executor);

}  // namespace attnlab::v2
