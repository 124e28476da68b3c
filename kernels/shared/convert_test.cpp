// Compares the conversions with the definition of the formats: decoded with ldexp, rounded by
// comparing the distances to both neighbours in double.
#include "kernels/shared/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // an exponent of all ones is infinity or NaN; e4m3 has but one NaN there

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  u32 sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  // Returns the code after the largest finite one: infinity where there is one, else NaN.
  u32 first_not_finite() const {
    return has_infinity ? sign_bit() - (1u << mantissa_bits) : sign_bit() - 1;
  }

  // Returns the value of a code without sign. That of infinity's code is the number that would
  // follow the largest finite one, which is what rounding compares with (IEEE 754, section 4.3.1).
  double magnitude(u32 code) const {
    const int exponent = static_cast<int>(code >> mantissa_bits);
    const int mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
    const int implicit_bit = exponent == 0 ? 0 : 1 << mantissa_bits;
    return std::ldexp(mantissa + implicit_bit, std::max(exponent, 1) - bias() - mantissa_bits);
  }
};

constexpr Format kF16 = {.exponent_bits = 5, .mantissa_bits = 10, .has_infinity = true};
constexpr Format kBf16 = {.exponent_bits = 8, .mantissa_bits = 7, .has_infinity = true};
constexpr Format kE4m3 = {.exponent_bits = 4, .mantissa_bits = 3, .has_infinity = false};

// Rounds to nearest, ties to the even code; overflow goes to infinity or saturates.
class NearestEven {
 public:
  explicit NearestEven(const Format& format) : format_(format) {
    const u32 last =
        format.has_infinity ? format.first_not_finite() : format.first_not_finite() - 1;
    for (u32 code = 0; code <= last; ++code) magnitudes_.push_back(format.magnitude(code));
  }

  u32 operator()(float value) const {
    const u32 sign = std::signbit(value) ? format_.sign_bit() : 0;
    const double x = std::abs(static_cast<double>(value));
    const auto above = std::upper_bound(magnitudes_.begin(), magnitudes_.end(), x);
    const u32 code = static_cast<u32>(above - magnitudes_.begin());
    if (above == magnitudes_.end()) return sign | (code - 1);
    const double to_upper = *above - x, to_lower = x - *(above - 1);
    const bool up = to_upper < to_lower || (to_upper == to_lower && code % 2 == 0);
    return sign | (up ? code : code - 1);
  }

  const std::vector<double>& magnitudes() const { return magnitudes_; }

 private:
  Format format_;
  std::vector<double> magnitudes_;
};

template <class FromF32>
void expect_rounds_to_nearest_even(const Format& format, FromF32 from_f32) {
  const NearestEven nearest(format);
  int failures = 0;
  const auto check = [&](u32 bits) {
    const float value = bit_cast<float>(bits);
    if (std::isnan(value) || failures > 10) return;
    const u32 got = from_f32(value), want = nearest(value);
    if (got == want) return;
    ++failures;
    ADD_FAILURE() << std::hexfloat << value << std::hex << ": got " << got << ", want " << want;
  };
  // The step covers the whole range: every exponent and many mantissas, odd and even.
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4999) {
    check(static_cast<u32>(bits));
  }
  for (u32 exponent = 0; exponent <= 255; ++exponent) {
    for (u32 mantissa : {0u, 1u, 0x3FFFFFu, 0x400000u, 0x7FFFFFu}) {
      for (u32 sign : {0u, 0x80000000u}) {
        if (exponent != 255 || mantissa == 0) check(sign | exponent << 23 | mantissa);
      }
    }
  }
  // The loop takes every value, every tie, and their neighbours: these hold the borders to
  // subnormals and overflow.
  const std::vector<double>& magnitudes = nearest.magnitudes();
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const double middle = i == 0 ? 0.0 : (magnitudes[i - 1] + magnitudes[i]) / 2;
    for (double exact : {magnitudes[i], middle}) {
      if (exact > 0x1.FFFFFEp127) continue;  // the number that bf16's infinity stands for
      const u32 bits = bit_cast<u32>(static_cast<float>(exact));
      for (u32 near : {bits, bits + 1, bits == 0 ? 0 : bits - 1}) {
        check(near);
        check(near | 0x80000000u);
      }
    }
  }
}

TEST(Convert, F16RoundsToNearestEven) { expect_rounds_to_nearest_even(kF16, f16_from_f32); }
TEST(Convert, Bf16RoundsToNearestEven) { expect_rounds_to_nearest_even(kBf16, bf16_from_f32); }
TEST(Convert, E4m3RoundsToNearestEvenAndSaturates) {
  expect_rounds_to_nearest_even(kE4m3, e4m3_from_f32);
}

TEST(Convert, BordersOfF16AndE4m3) {
  EXPECT_EQ(f16_from_f32(65519.996f), 0x7BFF);  // the largest number that stays finite
  EXPECT_EQ(f16_from_f32(65520.0f), 0x7C00);
  EXPECT_EQ(f16_from_f32(-65520.0f), 0xFC00);
  EXPECT_EQ(f16_from_f32(0x1p-25f), 0x0000);  // a tie with zero
  EXPECT_EQ(f16_from_f32(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(bf16_from_f32(0x1.FFFFFEp127f), 0x7F80);
  EXPECT_EQ(e4m3_from_f32(1e30f), 0x7E);
  EXPECT_EQ(e4m3_from_f32(-kInfinity), 0xFE);
}

// Every code of a format decodes as defined, and converts back to itself.
template <class ToF32, class FromF32>
void expect_codes_round_trip(const Format& format, ToF32 to_f32, FromF32 from_f32) {
  for (u32 code = 0; code < 2 * format.sign_bit(); ++code) {
    const u32 magnitude = code & (format.sign_bit() - 1);
    const bool negative = code != magnitude;
    const float value = to_f32(code);
    const u32 back = from_f32(value);
    if (magnitude < format.first_not_finite()) {
      const double want = format.magnitude(magnitude);
      ASSERT_EQ(static_cast<double>(value), negative ? -want : want) << code;
      ASSERT_EQ(back, code);
    } else if (format.has_infinity && magnitude == format.first_not_finite()) {
      ASSERT_EQ(value, negative ? -kInfinity : kInfinity) << code;
      ASSERT_EQ(back, code);
    } else {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_TRUE(std::isnan(to_f32(back))) << code;
    }
    ASSERT_EQ(std::signbit(value), negative) << code;
    ASSERT_EQ((back & format.sign_bit()) != 0, negative) << code;
  }
}

TEST(Convert, EveryF16RoundTrips) {
  expect_codes_round_trip(
      kF16, [](u32 code) { return f32_from_f16(static_cast<u16>(code)); }, f16_from_f32);
}

TEST(Convert, EveryBf16RoundTrips) {
  expect_codes_round_trip(
      kBf16, [](u32 code) { return f32_from_bf16(static_cast<u16>(code)); }, bf16_from_f32);
}

TEST(Convert, EveryE4m3RoundTrips) {
  expect_codes_round_trip(
      kE4m3, [](u32 code) { return f32_from_e4m3(static_cast<u8>(code)); }, e4m3_from_f32);
}

TEST(Convert, NanStaysNanWhateverItsPayload) {
  for (u32 payload : {1u, 0x1000u, 0x1FFFu, 0x2000u, 0x8000u, 0xFFFFu, 0x400000u, 0x7FFFFFu}) {
    for (u32 sign : {0u, 0x80000000u}) {
      const float nan = bit_cast<float>(sign | 0x7F800000u | payload);
      EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(nan)))) << payload;
      EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(nan)))) << payload;
      EXPECT_TRUE(std::isnan(f32_from_e4m3(e4m3_from_f32(nan)))) << payload;
    }
  }
}

#ifdef __FLT16_MANT_DIG__
// This judge shares nothing with this tree: it is the compiler's own half precision.
TEST(Convert, F16AgreesWithTheCompiler) {
  __extension__ using Half = _Float16;
  const auto check = [](u32 bits) {
    const float value = bit_cast<float>(bits);
    if (std::isnan(value)) return true;
    const Half half = static_cast<Half>(value);
    return f16_from_f32(value) == bit_cast<u16>(half) &&
           f32_from_f16(bit_cast<u16>(half)) == static_cast<float>(half);
  };
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 1021) {
    ASSERT_TRUE(check(static_cast<u32>(bits))) << std::hex << bits;
  }
}
#endif

}  // namespace
}  // namespace attnlab
