// sm_20. PTX ISA: %smid.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Returns the multiprocessor that the thread runs on.
__device__ inline u32 smid() {
  u32 multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  return multiprocessor;
}

}  // namespace attnlab::ptx
