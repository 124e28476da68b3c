// sm_75. PTX ISA: st. A word to shared memory, whose address is 32 bits (cvta_to_shared).
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

__device__ inline void st_shared_u32(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

}  // namespace attnlab::ptx
