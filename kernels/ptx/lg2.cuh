// sm_75. PTX ISA: lg2.
#pragma once

namespace attnlab::ptx {

// Returns log2(x), within 2^-22 of it or, near 1, of 1; -infinity of 0.
__device__ inline float lg2_approx_ftz_f32(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace attnlab::ptx
