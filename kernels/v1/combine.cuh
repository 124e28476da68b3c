// Algorithm 1's lines 11 and 12: the statistics of rows, old and new, and what they weigh O with.
#pragma once

#include "kernels/device/softmax.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// What of a row goes into its new O: of the old O, and of each split's P V.
template <i32 kSplits>
struct Weights {
  float old;
  float part[kSplits];
};

// Lines 11 and 12 for one row: its old state and those of the splits become the new one.
template <i32 kSplits>
__device__ Weights<kSplits> combine(OnlineSoftmax& state, const OnlineSoftmax (&parts)[kSplits],
                                    float keep_scale) {
  Weights<kSplits> weights;
  float largest = state.max;
#pragma unroll
  for (const OnlineSoftmax& part : parts) largest = fmaxf(largest, part.max);
  const float reference = finite_max(largest);
  weights.old = state.sum * ptx::ex2_approx_ftz_f32(state.max - reference);
  float sum = weights.old;
#pragma unroll
  for (i32 split = 0; split < kSplits; ++split) {
    weights.part[split] = ptx::ex2_approx_ftz_f32(parts[split].max - reference);
    sum += parts[split].sum * weights.part[split];
  }
  state = {.max = largest, .sum = sum};
  const float scale = device::final_scale(state);
  weights.old *= scale;
#pragma unroll
  for (float& weight : weights.part) weight *= scale * keep_scale;
  return weights;
}

// The m and l of a lane's rows of a share, in device memory.
template <ForwardConfig kConfig>
struct RowStatistics {
  static constexpr i32 kOwnRows = kConfig.own_rows() / 16;
  const Workspace& workspace;
  i64 first;  // of the lane's rows
  i32 row;    // of the slice: the first of the share
  i32 exist;  // rows of the slice
  i32 lane;

  __device__ bool exists(i32 below) const { return row + below + lane / 4 < exist; }

  // Line 8.
  __device__ void load(bool is_first, device::RowStates<kOwnRows>& states) const {
    device::for_own_rows<kOwnRows>([&](i32 r, i32 half) {
      const i32 below = 16 * r + 8 * half;
      if (is_first || !exists(below)) return;
      states.at[r][half] = {.max = workspace.m[first + below], .sum = workspace.l[first + below]};
    });
  }
};

}  // namespace attnlab::v1
