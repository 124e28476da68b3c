// sm_90. PTX ISA: mbarrier. A barrier is 8 bytes of shared memory that count arrivals and bytes of
// copies; `barrier` is its address there (cvta_to_shared).
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Inits a barrier by one thread; others use it after a fence_mbarrier_init and a __syncthreads.
__device__ inline void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes barriers that this thread has initialised known to copies.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and lets the phase wait for so many bytes of copies more (below 2^20).
__device__ inline void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Returns whether the phase of this parity (the first has 0) is complete. Waits for it a while, so
// it is called in a loop.
__device__ inline bool mbarrier_try_wait_parity(u32 barrier, u32 parity) {
  u32 complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete != 0;
}

// Returns at once whether that phase is complete.
__device__ inline bool mbarrier_test_wait_parity(u32 barrier, u32 parity) {
  u32 complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete != 0;
}

}  // namespace attnlab::ptx
