// sm_75 (bf16x2 and f16x2 from f32: sm_80; e4m3x2: sm_90). PTX ISA: cvt. Pairs of values lie in one
// register, the first in its low half.
#pragma once

#include "kernels/shared/convert.h"

namespace attnlab::ptx {

__device__ inline float cvt_f32_f16(u16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value));
  return result;
}

#if __CUDA_ARCH__ >= 800

__device__ inline u32 cvt_rn_f16x2_f32(float low, float high) {
  u32 result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

__device__ inline u32 cvt_rn_bf16x2_f32(float low, float high) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

#else

__device__ inline u16 cvt_rn_f16_f32(float value) {
  u16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}

// Does what the instructions of sm_80 do, in several.
__device__ inline u32 cvt_rn_f16x2_f32(float low, float high) {
  return cvt_rn_f16_f32(low) | static_cast<u32>(cvt_rn_f16_f32(high)) << 16;
}

__device__ inline u32 cvt_rn_bf16x2_f32(float low, float high) {
  return bf16_from_f32(low) | static_cast<u32>(bf16_from_f32(high)) << 16;
}

#endif

#if __CUDA_ARCH__ >= 900

// Converts to e4m3; beyond 448 in size it gives 448 (satfinite), of NaN 0x7F.
__device__ inline u16 cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
  u16 result;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
  return result;
}

#endif

}  // namespace attnlab::ptx
