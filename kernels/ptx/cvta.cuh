// sm_75. PTX ISA: cvta. Instructions on shared memory take its addresses as 32 bits.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// `address` is in shared memory.
__device__ inline u32 cvta_to_shared(const void* address) {
  u64 result;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(result) : "l"(address));
  return static_cast<u32>(result);
}

}  // namespace attnlab::ptx
