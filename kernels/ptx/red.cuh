// sm_80 (sm_90: four values in one instruction). PTX ISA: red. It adds or takes maxima in global
// memory where nobody asks for the result.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Adds to[i] += values[i]; both are aligned to 16 bytes.
__device__ inline void red_add_v4_f32(float* to, const float (&values)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values[0]),
               "f"(values[1]), "f"(values[2]), "f"(values[3])
               : "memory");
#else
#pragma unroll
  for (i32 i = 0; i < 4; ++i) {
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to + i), "f"(values[i]) : "memory");
  }
#endif
}

// Sets to = max(to, value) where `condition` holds, by a predicate; ptxas may branch all the same.
__device__ inline void red_max_u64_if(bool condition, u64& to, u64 value) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %0, 0;\n"
      "@p red.global.max.u64 [%1], %2;\n"
      "}"
      :
      : "r"(static_cast<u32>(condition)), "l"(&to), "l"(value)
      : "memory");
}

}  // namespace attnlab::ptx
