// sm_50. PTX ISA: rcp.approx.ftz.f32. It gives 1 / x, at most 1 ulp off; of 0 it is infinity, and
// subnormal inputs are taken as 0.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

__device__ inline float rcp_approx_ftz_f32(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace attnlab::ptx
