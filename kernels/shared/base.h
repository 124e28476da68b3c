// Defines what every header of shared, ptx, device and every schedule.h may use: fixed-width types,
// integer helpers and the few math functions that plain C++ and NVRTC spell differently.
//
// NVRTC has no standard headers, so nothing in this folder includes or names anything of std.
#pragma once

#if defined(__CUDACC__)
#define ATTNLAB_HD __host__ __device__
#else
#define ATTNLAB_HD
#endif

namespace attnlab {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 =
    long;  // the type std::int64_t has on Linux x86-64 and AArch64, so host code mixes freely
using u64 = unsigned long;
static_assert(sizeof(i32) == 4 && sizeof(i64) == 8, "attnlab assumes an LP64 platform (Linux)");

template <class T>
ATTNLAB_HD constexpr T min(T a, T b) {
  return b < a ? b : a;
}

template <class T>
ATTNLAB_HD constexpr T max(T a, T b) {
  return a < b ? b : a;
}

// Returns the smallest integer >= a / b, for a >= 0 and b > 0.
template <class T>
ATTNLAB_HD constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// Returns the smallest multiple of `multiple` that is >= a, for a >= 0 and multiple > 0.
template <class T>
ATTNLAB_HD constexpr T round_up(T a, T multiple) {
  return ceil_div(a, multiple) * multiple;
}

// Range is a half-open interval of indices [begin, end); it is empty when end <= begin.
struct Range {
  i64 begin = 0;
  i64 end = 0;
  ATTNLAB_HD constexpr bool empty() const { return end <= begin; }
  ATTNLAB_HD constexpr i64 size() const { return empty() ? 0 : end - begin; }
  ATTNLAB_HD friend constexpr bool operator==(const Range&, const Range&) = default;
};

ATTNLAB_HD constexpr Range intersect(Range a, Range b) {
  return {max(a.begin, b.begin), min(a.end, b.end)};
}

// Reinterprets the bits of a value (std::bit_cast without std).
template <class To, class From>
ATTNLAB_HD constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast needs types of one size");
  return __builtin_bit_cast(To, from);
}

constexpr float kInfinity = bit_cast<float>(0x7F800000u);
constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;

#if defined(__CUDACC__)
ATTNLAB_HD inline float exp2_f32(float x) { return exp2f(x); }
ATTNLAB_HD inline float log_f32(float x) { return logf(x); }
#else
inline float exp2_f32(float x) { return __builtin_exp2f(x); }
inline float log_f32(float x) { return __builtin_logf(x); }
#endif

}  // namespace attnlab
