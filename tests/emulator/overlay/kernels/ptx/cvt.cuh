// Emulated: see kernels/ptx/cvt.cuh.
#pragma once

#include "kernels/shared/convert.h"
#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline float cvt_f32_f16(u16 value) { return f32_from_f16(value); }

inline u32 cvt_rn_f16x2_f32(float low, float high) {
  return f16_from_f32(low) | static_cast<u32>(f16_from_f32(high)) << 16;
}

inline u32 cvt_rn_bf16x2_f32(float low, float high) {
  return bf16_from_f32(low) | static_cast<u32>(bf16_from_f32(high)) << 16;
}

inline u8 cvt_rn_satfinite_e4m3_f32(float value) {
  return value == value ? e4m3_from_f32(value) : u8{0x7F};
}

inline u16 cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
  return static_cast<u16>(cvt_rn_satfinite_e4m3_f32(low) | cvt_rn_satfinite_e4m3_f32(high) << 8);
}

}  // namespace attnlab::ptx
