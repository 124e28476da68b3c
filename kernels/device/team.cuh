// Serves threads that share a row: a warp, or a whole block.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::device {

constexpr i32 kWarp = 32;

// Returns a value, hidden from the compiler, which else keeps what it derives from it in registers
// throughout a loop.
__device__ inline i32 opaque(i32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Returns the lane, so hidden.
__device__ inline i32 opaque_lane() { return opaque(static_cast<i32>(threadIdx.x) % kWarp); }

// Returns the lane by one instruction. A remainder of signed numbers takes four, but with this one
// in opaque_lane() the backward of v1 and of v2 spills.
__device__ inline i32 own_lane() { return static_cast<i32>(threadIdx.x % kWarp); }

// Returns the lane by a shuffle, for a loop in each of whose steps ptxas would else read %tid again
// (S2R), which takes long: it computes a shuffle only once. All lanes must call it.
__device__ inline i32 kept_lane() {
  const i32 lane = own_lane();
  return __shfl_sync(0xFFFFFFFFu, lane, lane);
}

// Returns whether it holds in any thread of the block, and is a barrier for all of them. The vote
// after it tells the compiler that the answer is warp-uniform.
__device__ inline bool any_of_block(bool holds) {
  return __any_sync(0xFFFFFFFFu, __syncthreads_or(holds)) != 0;
}

struct Sum {
  static constexpr float kNothing = 0.0f;
  static __device__ float of(float a, float b) { return a + b; }
};

struct Maximum {
  static constexpr float kNothing = -kInfinity;
  static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

template <class Operation>
__device__ float reduce_warp(float value) {
#pragma unroll
  for (i32 distance = kWarp / 2; distance > 0; distance /= 2) {
    value = Operation::of(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  }
  return value;
}

// Returns the result of all threads' values, in every one of them.
template <class Operation, i32 kThreads>
__device__ float reduce_team(float value) {
  value = reduce_warp<Operation>(value);
  if constexpr (kThreads > kWarp) {
    constexpr i32 kWarps = kThreads / kWarp;
    static_assert(kWarps <= kWarp, "a block has at most 1024 threads");
    __shared__ float sWarps[kWarps];
    const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
    __syncthreads();  // the values of a reduction before may still be read
    if (lane == 0) sWarps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = reduce_warp<Operation>(lane < kWarps ? sWarps[lane] : Operation::kNothing);
  }
  return value;
}

}  // namespace attnlab::device
