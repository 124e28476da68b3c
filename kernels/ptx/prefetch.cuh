// sm_75. PTX ISA: prefetch. The line of an address is brought to a cache; nobody waits for it.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

__device__ inline void prefetch_global_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace attnlab::ptx
