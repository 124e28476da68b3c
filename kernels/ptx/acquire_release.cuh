// sm_75. PTX ISA: ld.acquire, st.release. They load and store a word in global memory and order
// what the thread did, or does, with other memory, for all blocks of the GPU.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

__device__ inline i32 ld_acquire_gpu_global(const i32* from) {
  i32 value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ inline void st_release_gpu_global(i32* to, i32 value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

}  // namespace attnlab::ptx
