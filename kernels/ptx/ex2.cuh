// sm_75. PTX ISA: ex2.
#pragma once

namespace attnlab::ptx {

// Returns 2^x within 2^-22 of itself; denormal results and arguments become 0.
__device__ inline float ex2_approx_ftz_f32(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace attnlab::ptx
