// sm_75. PTX ISA: st. It stores a word to shared memory at a 32-bit address (cvta_to_shared).
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

__device__ inline void st_shared_u32(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

}  // namespace attnlab::ptx
