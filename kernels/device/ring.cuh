// Holds barriers of rings of stages (kernels/shared/pipeline.h) in shared memory: bulk copies that
// fill a stage complete one of them, those who have read it arrive at another.
#pragma once

#include "kernels/device/team.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/shared/pipeline.h"

namespace attnlab::device {

// How many lanes of a warp arrive at a barrier where the warp has read or filled a stage: one, for
// all of them. __syncwarp() or a barrier of more threads must lie between what other lanes have
// done there and that arrival. compute-sanitizer's racecheck takes an arrival for that lane's alone
// (results/nvidia-h200/verification.md), so scripts/sanitize.sh lets all of them arrive.
constexpr i32 kArrivingLanes = 1;

__device__ inline bool arrives_for_warp(i32 lane) { return kArrivingLanes == kWarp || lane == 0; }
__device__ constexpr u32 arrivals_of(i32 warps) { return static_cast<u32>(warps * kArrivingLanes); }

// Phase is a phase of a barrier, named by its parity.
struct Phase {
  u32 barrier;
  u32 parity;
};

__device__ inline bool is_over(const Phase& phase) {
  return ptx::mbarrier_test_wait_parity(phase.barrier, phase.parity);
}
__device__ inline void wait(const Phase& phase) {
  while (!ptx::mbarrier_try_wait_parity(phase.barrier, phase.parity)) {
  }
}

// Waits for two phases. It tests both before it looks at either answer: mostly both are over, and
// an answer takes long.
__device__ inline void wait(const Phase& first, const Phase& second) {
  const bool has_first = is_over(first), has_second = is_over(second);
  if (!has_first) wait(first);
  if (!has_second) wait(second);
}

// Ring has the barriers of a ring, two of 8 bytes a stage; `barriers` is the address of the first.
template <i32 kStages>
struct Ring {
  u32 barriers;

  __device__ u32 full(i32 stage) const { return barriers + static_cast<u32>(8 * stage); }
  __device__ u32 empty(i32 stage) const { return full(kStages + stage); }

  // Inits the barriers; one thread calls it before all others use the ring. A stage is full once
  // all `writers` have arrived, and empty once all `readers` have.
  __device__ void init(u32 readers, u32 writers = 1) const {
    for (i32 stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(full(stage), writers);
      ptx::mbarrier_init(empty(stage), readers);
    }
  }
  // Return the phase that a reader waits for, and the one that a writer waits for.
  __device__ Phase when_full(const PipelineState& state) const {
    return {full(state.stage), state.phase};
  }
  __device__ Phase when_empty(const PipelineState& state) const {
    return {empty(state.stage), state.phase};
  }
  __device__ void wait_full(const PipelineState& state) const { wait(when_full(state)); }
  __device__ void wait_empty(const PipelineState& state) const { wait(when_empty(state)); }
  __device__ void release(const PipelineState& state) const {
    ptx::mbarrier_arrive(empty(state.stage));
  }
};

}  // namespace attnlab::device
