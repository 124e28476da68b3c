// Does Algorithm 1's lines 11 and 12: it combines the running statistics of rows, maximum m and sum
// l, and finds the weights of O.
#pragma once

#include "kernels/device/softmax.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// Weights holds the factors of a row's new O: for its running O, and for each split's partial O.
template <i32 kSplits>
struct Weights {
  float running;
  float partial[kSplits];
};

// Does lines 11 and 12 for a row: adds the splits' statistics to `running`, returns O's weights.
template <i32 kSplits>
__device__ Weights<kSplits> combine(OnlineSoftmax& running, const OnlineSoftmax (&partial)[kSplits],
                                    float keep_scale) {
  Weights<kSplits> weights;
  float largest = running.max;
#pragma unroll
  for (const OnlineSoftmax& split : partial) largest = fmaxf(largest, split.max);
  const float reference = finite_max(largest);
  weights.running = running.sum * ptx::ex2_approx_ftz_f32(running.max - reference);
  float sum = weights.running;
#pragma unroll
  for (i32 split = 0; split < kSplits; ++split) {
    weights.partial[split] = ptx::ex2_approx_ftz_f32(partial[split].max - reference);
    sum += partial[split].sum * weights.partial[split];
  }
  running = {.max = largest, .sum = sum};
  const float scale = device::final_scale(running);
  weights.running *= scale;
#pragma unroll
  for (float& weight : weights.partial) weight *= scale * keep_scale;
  return weights;
}

// RunningStatistics gives access to m and l of a lane's rows of a share, in device memory.
template <ForwardConfig kConfig>
struct RunningStatistics {
  static constexpr i32 kOwnRows = kConfig.own_rows() / 16;
  const Workspace& workspace;
  i64 first;  // of the lane's rows
  i32 row;    // of the slice: the first of the share
  i32 exist;  // rows of the slice
  i32 lane;

  __device__ bool exists(i32 below) const { return row + below + lane / 4 < exist; }

  // Loads l and m of line 8; at a row's first visit there are none, and `states` stays as it is.
  __device__ void load(bool is_first, device::RowStates<kOwnRows>& states) const {
    device::for_own_rows<kOwnRows>([&](i32 r, i32 half) {
      const i32 below = 16 * r + 8 * half;
      if (is_first || !exists(below)) return;
      states.at[r][half] = {.max = workspace.m[first + below], .sum = workspace.l[first + below]};
    });
  }
};

}  // namespace attnlab::v1
