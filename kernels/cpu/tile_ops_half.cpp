// Implements tile operations on 16-bit storage types: shared/convert.h in SIMD lanes, bit by bit.
// Highway's own conversions are not used: on some targets they truncate or lose subnormals.
#include "kernels/cpu/tile_ops_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_ops_half.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/tile_ops-inl.h"
#include "kernels/shared/convert.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::cpu::HWY_NAMESPACE {
namespace {

// A lane has the bits of an fp32, or a half in its low 16 bits. It is signed: that is what all
// instruction sets compare.
using Bits = hn::RebindToSigned<Lanes>;
using BitVector = hn::Vec<Bits>;
using Halves = hn::Rebind<u16, Lanes>;

HWY_ATTR inline BitVector bits(u32 value) { return hn::Set(Bits(), static_cast<i32>(value)); }

// Returns what rounds to nearest even when it is added before a shift to the right: half of the
// last place that survives, less one where what survives is even.
template <int kShift>
HWY_ATTR inline BitVector rounding(BitVector v) {
  const BitVector odd = hn::And(hn::ShiftRight<kShift>(v), bits(1));
  return hn::Add(odd, bits((1u << (kShift - 1)) - 1));
}

struct F16 {
  static HWY_ATTR inline BitVector encode(Vector v) {
    const BitVector all = hn::BitCast(Bits(), v);
    const BitVector magnitude = hn::And(all, bits(0x7FFFFFFF));
    const BitVector sign = hn::And(hn::ShiftRight<16>(all), bits(0x8000));
    const BitVector rebiased = hn::Sub(magnitude, bits(0x38000000));
    const BitVector normal = hn::ShiftRight<13>(hn::Add(rebiased, rounding<13>(magnitude)));
    // The last place of 0.5 is the smallest subnormal, so the sum rounds to a multiple of it.
    const Vector sum = hn::Add(hn::BitCast(Lanes(), magnitude), splat(0.5f));
    const BitVector subnormal = hn::Sub(hn::BitCast(Bits(), sum), bits(0x3F000000));
    const BitVector nan = hn::Or(bits(0x7E00), hn::And(hn::ShiftRight<13>(magnitude), bits(0x3FF)));
    BitVector half = hn::IfThenElse(hn::Lt(magnitude, bits(0x38800000)), subnormal, normal);
    const auto overflows = hn::Gt(magnitude, bits(0x477FFFFF));  // 65536 and above
    half = hn::IfThenElse(overflows, bits(0x7C00), half);
    half = hn::IfThenElse(hn::Gt(magnitude, bits(0x7F800000)), nan, half);
    return hn::Or(sign, half);
  }
  static HWY_ATTR inline Vector decode(BitVector half) {
    const BitVector sign = hn::ShiftLeft<16>(hn::And(half, bits(0x8000)));
    const BitVector magnitude = hn::And(half, bits(0x7FFF));
    const BitVector normal = hn::Add(hn::ShiftLeft<13>(magnitude), bits(112u << 23));
    const BitVector special = hn::Add(normal, bits(112u << 23));  // infinity and NaN
    const Vector sum = hn::BitCast(Lanes(), hn::Or(magnitude, bits(0x3F000000)));
    const BitVector subnormal = hn::BitCast(Bits(), hn::Sub(sum, splat(0.5f)));
    BitVector value = hn::IfThenElse(hn::Lt(magnitude, bits(0x400)), subnormal, normal);
    value = hn::IfThenElse(hn::Gt(magnitude, bits(0x7BFF)), special, value);
    return hn::BitCast(Lanes(), hn::Or(sign, value));
  }
  // Rounds in fp32: beside a power of two that is 2^13 times its own (or of the smallest normal
  // number), a value keeps just the bits that the half has.
  static HWY_ATTR inline Vector round(Vector v) {
    const BitVector magnitude = hn::And(hn::BitCast(Bits(), v), bits(0x7FFFFFFF));
    const BitVector power = hn::Max(hn::And(magnitude, bits(0x7F800000)), bits(0x38800000));
    const Vector large = hn::BitCast(Lanes(), hn::Add(power, bits(13u << 23)));
    const Vector sum = hn::Add(hn::BitCast(Lanes(), magnitude), large);
    const BitVector nan = hn::Or(hn::And(magnitude, bits(0xFFFFE000)), bits(0x400000));
    BitVector value = hn::BitCast(Bits(), hn::Sub(sum, large));
    value = hn::IfThenElse(hn::Gt(magnitude, bits(0x477FEFFF)), bits(0x7F800000), value);  // 65520
    value = hn::IfThenElse(hn::Gt(magnitude, bits(0x7F800000)), nan, value);
    return hn::CopySignToAbs(hn::BitCast(Lanes(), value), v);
  }
  static u16 encode_one(float value) { return f16_from_f32(value); }
  static float decode_one(u16 half) { return f32_from_f16(half); }
};

struct Bf16 {
  static HWY_ATTR inline BitVector encode(Vector v) {
    const BitVector all = hn::BitCast(Bits(), v);
    const BitVector magnitude = hn::And(all, bits(0x7FFFFFFF));
    const BitVector nan = hn::Or(all, bits(0x400000));
    const BitVector rounded = hn::Add(all, rounding<16>(all));
    const BitVector upper = hn::IfThenElse(hn::Gt(magnitude, bits(0x7F800000)), nan, rounded);
    return hn::And(hn::ShiftRight<16>(upper), bits(0xFFFF));
  }
  static HWY_ATTR inline Vector decode(BitVector half) {
    return hn::BitCast(Lanes(), hn::ShiftLeft<16>(half));
  }
  static HWY_ATTR inline Vector round(Vector v) { return decode(encode(v)); }
  static u16 encode_one(float value) { return bf16_from_f32(value); }
  static float decode_one(u16 half) { return f32_from_bf16(half); }
};

template <class Half>
HWY_ATTR void decode(const u16* from, i64 n, float* to) {
  const i64 lanes = lane_count();
  i64 i = 0;
  for (; i + lanes <= n; i += lanes) {
    store(Half::decode(hn::PromoteTo(Bits(), hn::LoadU(Halves(), from + i))), to + i);
  }
  for (; i < n; ++i) to[i] = Half::decode_one(from[i]);
}

template <class Half>
HWY_ATTR void encode(const float* from, i64 n, u16* to) {
  const i64 lanes = lane_count();
  i64 i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(Halves(), Half::encode(load(from + i))), Halves(), to + i);
  }
  for (; i < n; ++i) to[i] = Half::encode_one(from[i]);
}

template <class Half>
HWY_ATTR void round(float* values, i64 n) {
  for (i64 i = 0; i < n; i += lane_count()) store(Half::round(load(values + i)), values + i);
}

template <class Half>
constexpr HalfOps kOps = {.decode = decode<Half>, .encode = encode<Half>, .round = round<Half>};

}  // namespace

const HalfOps& f16_ops() { return kOps<F16>; }
const HalfOps& bf16_ops() { return kOps<Bf16>; }

}  // namespace attnlab::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
