// sm_50. PTX ISA: prefetch.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Brings the line around an address of global memory to the L2; nobody waits for it.
__device__ inline void prefetch_global_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

}  // namespace attnlab::ptx
