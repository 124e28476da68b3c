// sm_70. PTX ISA: barrier.sync, barrier.arrive. They use one of the 16 barriers of a thread block
// for some of its warps;
// __syncthreads() is barrier 0 for all.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Waits until `threads`, a multiple of 32, have come.
__device__ inline void barrier_sync(i32 barrier, i32 threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Counts this thread as having come, and goes on.
__device__ inline void barrier_arrive(i32 barrier, i32 threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace attnlab::ptx
