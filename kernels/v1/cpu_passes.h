// Declares the two passes of v1 on the CPU, which cpu.cpp launches and counts.
#pragma once

#include <span>

#include "kernels/cpu/runner.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// Work holds what all work items of a launch share.
struct Work {
  const Problem& problem;
  Shape shape;
  Tiling tiling;
  Dropout dropout;
};

// HbmState is what v1 keeps in HBM between its steps, fp32. All are null when only counting.
struct HbmState {
  float* m = nullptr;  // (batch, num_heads_q, seqlen_q), row maximum, in units of log2
  float* l = nullptr;  // (batch, num_heads_q, seqlen_q), row sum of exp2(score - m)
  // (batch, num_heads_q, seqlen_q, head_dim): holds O, then dQ, while they are being summed. f32
  // does not use it: there the outputs themselves can hold the sums.
  float* sums = nullptr;
};

// Returns where the sums of O (`output` = slice.o) or dQ (slice.dq) live from step to step.
inline cpu::GlobalRows running_sum(const Work& work, const HbmState& state,
                                   const cpu::SliceTensors& slice, const cpu::GlobalRows& output,
                                   Range rows) {
  if (work.problem.dtype == Dtype::f32) return output;
  return slice.accumulator(output.operand, state.sums, rows);
}

// ForwardMemory is the fast memory of one worker in the forward.
struct ForwardMemory {
  cpu::Tile sQ;        // (block_m, head_dim)
  cpu::Tile sQt;       // (head_dim, block_m)
  cpu::Tile sK;        // (block_n, head_dim)
  cpu::Tile sV;        // (block_n, head_dim)
  cpu::Tile sSt;       // (block_n, block_m), scores, then probabilities
  cpu::Tile sO;        // (block_m, head_dim), normalised
  cpu::Tile sPV;       // (block_m, head_dim)
  cpu::Tile sM;        // (1, block_m)
  cpu::Tile sL;        // (1, block_m)
  cpu::Tile sTileSum;  // (1, block_m), the row sums of this step; lse at the end
  cpu::Tile sRescale;  // (1, block_m)
};
ForwardMemory carve_forward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim);

// Does one work item: O and lse of one (batch, query head); leaves m and l in `state`.
void forward(const Work& work, const HbmState& state, const cpu::SliceTensors& slice,
             const ForwardMemory& fast, cpu::Executor& executor);

// BackwardMemory is the fast memory of one worker in the backward.
struct BackwardMemory {
  cpu::Tile sQ;      // (block_m, head_dim)
  cpu::Tile sO;      // (block_m, head_dim)
  cpu::Tile sDO;     // (block_m, head_dim)
  cpu::Tile sDQ;     // (block_m, head_dim)
  cpu::Tile sK;      // (block_n, head_dim), times softmax_scale
  cpu::Tile sKt;     // (head_dim, block_n)
  cpu::Tile sVt;     // (head_dim, block_n)
  cpu::Tile sP;      // (block_m, block_n), S, then P
  cpu::Tile sDS;     // (block_m, block_n), dP, then dS
  cpu::Tile sDK;     // (block_n, head_dim)
  cpu::Tile sDV;     // (block_n, head_dim), V on its way to sVt
  cpu::Tile sM;      // (1, block_m)
  cpu::Tile sL;      // (1, block_m)
  cpu::Tile sDelta;  // (1, block_m)
};
BackwardMemory carve_backward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim);

// Does one work item: dK and dV of one (batch, K/V head), and dQ of the query heads that share it.
void backward(const Work& work, const HbmState& state, std::span<const cpu::SliceTensors> group,
              const BackwardMemory& fast, cpu::Executor& executor);

}  // namespace attnlab::v1
