// sm_75. PTX ISA: ld. These loads happen each time they are written; they take 16 bytes, aligned
// to 16.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Loads without leaving anything in the L1. It is weak, unlike ld.global.cg, which is compiled to a
// load that is coherent in the whole GPU.
__device__ inline uint4 ld_global_no_allocate_v4(const uint4* from) {
  uint4 loaded;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(loaded.x), "=r"(loaded.y), "=r"(loaded.z), "=r"(loaded.w)
               : "l"(from));
  return loaded;
}

// Loads anew each time: two loads of one address are two loads.
__device__ inline uint4 ld_volatile_shared_v4(u32 from) {
  uint4 loaded;
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(loaded.x), "=r"(loaded.y), "=r"(loaded.z), "=r"(loaded.w)
               : "r"(from));
  return loaded;
}

}  // namespace attnlab::ptx
