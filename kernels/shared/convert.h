// Converts storage types as bits, rounded to nearest even without help from hardware, so that the
// CPU side and the oracle round exactly as the GPU does.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// Converts fp32 to bf16: the upper half, rounded to nearest even; NaN stays NaN (quiet).
ATTNLAB_HD constexpr u16 bf16_from_f32(float value) {
  const u32 bits = bit_cast<u32>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<u16>((bits >> 16) | 0x40u);
  return static_cast<u16>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

ATTNLAB_HD constexpr float f32_from_bf16(u16 bits) {
  return bit_cast<float>(static_cast<u32>(bits) << 16);
}

namespace detail {

// Shifts right and rounds to nearest even; shift in [1, 31].
ATTNLAB_HD constexpr u32 shift_right_rne(u32 value, u32 shift) {
  const u32 half = 1u << (shift - 1);
  const u32 odd = (value >> shift) & 1u;
  return (value + half - 1 + odd) >> shift;
}

}  // namespace detail

// Converts fp32 to fp16: to nearest even, overflow to infinity, keeps subnormals, NaN stays quiet.
ATTNLAB_HD constexpr u16 f16_from_f32(float value) {
  const u32 bits = bit_cast<u32>(value);
  const u32 sign = (bits >> 16) & 0x8000u;
  const u32 magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {  // NaN: keep the upper payload bits
    return static_cast<u16>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  }
  if (magnitude >= 0x47800000u) return static_cast<u16>(sign | 0x7C00u);  // >= 65536
  if (magnitude >=
      0x38800000u) {  // normal in fp16: rebias the exponent, a carry may reach infinity
    return static_cast<u16>(sign | detail::shift_right_rne(magnitude - 0x38000000u, 13));
  }
  const u32 exponent = magnitude >> 23;
  if (exponent < 102) return static_cast<u16>(sign);  // below half of the smallest subnormal
  const u32 significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  return static_cast<u16>(sign | detail::shift_right_rne(significand, 126 - exponent));
}

ATTNLAB_HD constexpr float f32_from_f16(u16 bits) {
  const u32 sign = static_cast<u32>(bits & 0x8000u) << 16;
  const u32 exponent = (bits >> 10) & 0x1Fu;
  const u32 mantissa = bits & 0x3FFu;
  if (exponent == 31) return bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

// Converts fp32 to e4m3 (no infinity, largest 448, NaN 0x7F): to nearest even, saturating to +-448
// as the hardware's satfinite conversion does; NaN stays NaN.
ATTNLAB_HD constexpr u8 e4m3_from_f32(float value) {
  const u32 bits = bit_cast<u32>(value);
  const u32 sign = (bits >> 24) & 0x80u;
  const u32 magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<u8>(sign | 0x7Fu);
  if (magnitude >= 0x43E00000u) return static_cast<u8>(sign | 0x7Eu);  // >= 448
  if (magnitude >= 0x3C800000u) {                                      // normal in e4m3: >= 2^-6
    return static_cast<u8>(sign | detail::shift_right_rne(magnitude - 0x3C000000u, 20));
  }
  const u32 exponent = magnitude >> 23;
  if (exponent < 117) return static_cast<u8>(sign);  // below half of the smallest subnormal, 2^-10
  const u32 significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  return static_cast<u8>(sign | detail::shift_right_rne(significand, 141 - exponent));
}

ATTNLAB_HD constexpr float f32_from_e4m3(u8 bits) {
  const u32 sign = static_cast<u32>(bits & 0x80u) << 24;
  const u32 exponent = (bits >> 3) & 0xFu;
  const u32 mantissa = bits & 0x7u;
  if (exponent == 15 && mantissa == 7) return bit_cast<float>(sign | 0x7FC00000u);
  if (exponent != 0) return bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
  const float subnormal = static_cast<float>(mantissa) * 0x1p-9f;
  return sign != 0 ? -subnormal : subnormal;
}

}  // namespace attnlab
