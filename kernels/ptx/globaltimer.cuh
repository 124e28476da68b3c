// sm_75. PTX ISA: %globaltimer.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Returns nanoseconds since some moment, the same for all multiprocessors.
__device__ inline u64 globaltimer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace attnlab::ptx
