// Tests what the bounds see: the smallest bias, row error and truncation of each type and output.
#include "reference/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "reference/test_kernel_backward.h"
#include "reference/tolerance.h"

namespace attnlab::reference {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;
constexpr std::int64_t kRows = 256;  // and keys
constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
constexpr const char* kOutputs[] = {"o", "dq", "dk", "dv"};

TEST(Statistics, PartsAreMergedByAddingAndTakingTheLarger) {
  const auto part = [](double value) {
    Statistics row;
    row.kernel.add(value);
    row.twin.add(2.0 * value);
    row.kernel_along = value;
    row.sum_of_squares = value * value;
    row.unit = value;
    row.end_row(value, 1.0, 0.5);
    return row;
  };
  Statistics both = part(1.0);
  both.merge(part(3.0));
  EXPECT_EQ(both.kernel.largest, 3.0);
  EXPECT_EQ(both.kernel.sum, 4.0);
  EXPECT_EQ(both.twin.sum_of_squares, 40.0);
  EXPECT_EQ(both.kernel_along, 4.0);
  EXPECT_EQ(both.unit, 3.0);
  EXPECT_EQ(both.largest_size, 3.0);
  EXPECT_EQ(both.rows, 2.0);
  EXPECT_EQ(both.elements, 2.0);
  EXPECT_EQ(both.twin_rows, 4.0 * 1.0 + 36.0 * 9.0);
  EXPECT_EQ(both.value_rows, 1.0 + 81.0);
  EXPECT_EQ(both.twin_alike, 0.5 * 2.0 * 1.0 + 0.5 * 6.0 * 3.0);
}

TEST(Bounds, NanNeverHolds) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE((Held{kNaN, 1.0}).holds());
  EXPECT_FALSE((Held{1.0, kNaN}).holds());
  Statistics statistics;
  statistics.sum_of_squares = 1.0;
  statistics.kernel_along = kNaN;
  EXPECT_FALSE(hold_slope(statistics, {}).holds());
  statistics.sum_of_squares = 0.0;
  EXPECT_FALSE(hold_slope(statistics, {}).holds());
}

// Returns so many rows of 1, each off by `error`, as are the twin's, whose sum is 0.
Statistics equal_rows(int count, double error, double alike) {
  Statistics all;
  for (int i = 0; i < count; ++i) {
    Statistics row;
    row.kernel.add(error);
    row.twin.add(error);
    row.kernel_along = error;
    row.sum_of_squares = 1.0;
    row.end_row(1.0, 1.0, alike);
    all.merge(row);
  }
  return all;
}

// 10000 rows that are all off by e / 4 have a bias, unless they can but round alike; no more than e
// is allowed for that.
TEST(Bounds, RowsThatRoundAlikeMayAllBeOff) {
  const Precision precision = {.dtype = Dtype::bf16, .length = 1e4};
  constexpr double kE = 0x1p-8;
  EXPECT_FALSE(hold_slope(equal_rows(10000, 0.25 * kE, 0.0), precision).holds());
  EXPECT_FALSE(hold_slope(equal_rows(10000, 0.25 * kE, 0.02), precision).holds());
  EXPECT_TRUE(hold_slope(equal_rows(10000, 0.25 * kE, 0.25), precision).holds());
  EXPECT_TRUE(hold_slope(equal_rows(10000, 0.9 * kE, 1.0), precision).holds());
  EXPECT_FALSE(hold_slope(equal_rows(10000, 1.1 * kE, 1.0), precision).holds());
}

// A sum over 8192 keys is 256 sums of 32 products, each of which may cut off 2^-14.
TEST(Bounds, SumsOfE4m3DriftWhereTheyAreNotPromoted) {
  const Precision promoted = {.dtype = Dtype::e4m3, .length = 8192.0};
  const Precision unpromoted = {
      .dtype = Dtype::e4m3, .products = Products::unpromoted, .length = 8192.0};
  EXPECT_EQ(drift_of(promoted), std::nullopt);
  EXPECT_EQ(drift_of({.dtype = Dtype::bf16, .length = 8192.0}), std::nullopt);
  EXPECT_EQ(drift_of(unpromoted), 1.5e-3 + 0x1p-6);
  EXPECT_TRUE(hold_slope(equal_rows(100000, 0x1p-6, 0.0), unpromoted).holds());
  EXPECT_FALSE(hold_slope(equal_rows(100000, 0x1.4p-6, 0.0), unpromoted).holds());
  EXPECT_TRUE(hold_slope(equal_rows(100000, 2e-3, 0.0), promoted).holds());
  EXPECT_FALSE(hold_slope(equal_rows(100000, 2.5e-3, 0.0), promoted).holds());
}

// With one key dS is 0 and dQ is what delta's rounding makes of it, in all rows the same way; the
// reference is what doubles round.
TEST(Bounds, WhatIsRoundingInTheReferenceHasNoSlope) {
  const Precision precision = {.dtype = Dtype::bf16, .length = 1.0};
  const auto rows_of = [](double value) {
    Statistics all;
    for (int i = 0; i < 1000; ++i) {
      Statistics row;
      row.kernel_along = 0x1p-9 * value;
      row.delta.add(0x1p-11);
      row.sum_of_squares = value * value;
      row.end_row(1.0, 1.0, 0.0);
      all.merge(row);
    }
    return all;
  };
  EXPECT_TRUE(hold_slope(rows_of(0x1p-50), precision).holds());
  EXPECT_FALSE(hold_slope(rows_of(0x1p-30), precision).holds());
  Statistics unknown = rows_of(0x1p-50);
  unknown.kernel_along = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(hold_slope(unknown, precision).holds());
}

// A row whose terms are 0 may be off only by the error of delta and by what underflows: squares in
// fp32, and in f16 subnormal numbers.
TEST(Bounds, ARowOfNothingIsGivenWhatItsDeltaIsOffBy) {
  const auto holds = [](Dtype dtype, double error, double delta) {
    Statistics row;
    row.kernel.add(error);
    row.delta.add(delta);
    row.end_row(0x1p-50, 1.0, 0.0);
    return hold_row(row, {.dtype = dtype, .length = 100.0}).holds();
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    EXPECT_FALSE(holds(dtype, 0x1p-40, 0.0));
    EXPECT_TRUE(holds(dtype, 0x1p-65, 0.0));
    EXPECT_TRUE(holds(dtype, 0x1p-23, 0x1p-24));
    EXPECT_FALSE(holds(dtype, 0x1p-22, 0x1p-24));
  }
  EXPECT_FALSE(holds(Dtype::f32, 1.0, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(holds(Dtype::f16, 0x1p-15, 0.0));
  EXPECT_FALSE(holds(Dtype::f16, 0x1p-13, 0.0));
}

TEST(Bounds, WhatRoundingTheReferenceDoesIsNoBias) {
  const Precision precision = {.dtype = Dtype::bf16, .length = 1e4};
  Statistics rows = equal_rows(10000, 0x1p-10, 0.0);
  EXPECT_FALSE(hold_slope(rows, precision).holds());
  rows.rounded_along = -rows.kernel_along;
  EXPECT_TRUE(hold_slope(rows, precision).holds());
}

// A tensor whose squares are 0 in double has no slope.
TEST(Bounds, NoSlopeWhereSquaresUnderflow) {
  Statistics rows;
  rows.kernel_along = -2e-246;
  EXPECT_TRUE(hold_slope(rows, {.dtype = Dtype::bf16}).holds());
}

TEST(Bounds, RowsRoundAlikeWhereScoresTakeFewValues) {
  const Precision bf16 = {.dtype = Dtype::bf16};  // e = 2^-8
  EXPECT_EQ(alike_share(bf16, 8.0, 0.5), 0.25);   // 16 values
  EXPECT_EQ(alike_share(bf16, 0.25, 0.5), 1.0);
  EXPECT_EQ(alike_share(bf16, 8.0, 0x1p-9), 0x1p-10);  // 1024 steps of bf16
  EXPECT_EQ(alike_share(bf16, 0x1p-9, 0x1p-9), 1.0);
  EXPECT_EQ(alike_share(bf16, 0.0, 0.5), 0.0);
}

// Spoilt has correct outputs of a problem, to be spoilt, and what is said of them.
class Spoilt {
 public:
  explicit Spoilt(Dtype dtype, Fault fault, const MaskSpec& mask = {}, bool has_integers = false)
      : test_({.pass = Pass::fwdbwd,
               .dtype = dtype,
               .seqlen_q = kRows,
               .seqlen_k = kRows,
               .mask = mask}) {
    test_.fill_normal(11);
    if (has_integers) fill_integers();
    run_forward(test_, Fault::none);
    run_backward(test_, fault);
    sample(choose_samples(test_.problem, kNoLimit, 0));
  }

  // Judges by these rows and keys from now on.
  void sample(const Samples& samples) {
    references_ = make_references(test_.problem, test_.tensors(), samples, 2);
  }

  // Returns the bound that fails of an output whose rows from `begin` to `end` are times `factor`.
  std::string failed(const std::string& name, float factor, std::int64_t begin, std::int64_t end) {
    return failed_as(name, begin, end, [&](float value) { return factor * value; });
  }
  // Returns the bound that fails of an output whose elements have lost so many of their low bits.
  std::string failed_without(const std::string& name, int bits) {
    const int unused = 23 - mantissa_bits(test_.problem.dtype);
    return failed_as(name, 0, kRows,
                     [&](float value) { return without_low_bits(value, unused + bits); });
  }
  std::string failed(const std::string& name) {
    for (const Verdict& verdict : judge(test_.problem, test_.tensors(), references_)) {
      if (verdict.tensor == name) return verdict.failed_bound;
    }
    return "no verdict";
  }

  // Returns how few low bits of an output's elements can be lost and are seen, as are all more up
  // to `most`; one more than that if not even these are.
  int fewest_seen(const std::string& name, int most) {
    int bits = most;
    while (bits > 0 && !failed_without(name, bits).empty()) --bits;
    return bits + 1;
  }
  // Returns the same, for each output, of the 23 low bits of its sums in fp32, lost at the end of
  // each tile of 32 keys (of dk and dv: rows), where a kernel rescales or stores them. Gradients
  // are of a good O.
  std::map<std::string, int> fewest_seen_of_sums(int most) {
    std::map<std::string, int> fewest;
    const TestProblem before = test_;
    for (int bits = most; bits >= 0 && fewest.size() < std::size(kOutputs); --bits) {
      test_ = before;
      test_.cut_bits = bits;
      run_backward(test_, Fault::none);
      run_forward(test_, Fault::none);
      for (const char* name : kOutputs) {
        if (failed(name).empty()) fewest.try_emplace(name, bits + 1);
      }
    }
    test_ = before;
    return fewest;
  }

  // Returns the smallest of 1.25^-i that is seen; 1 at most.
  double smallest_seen(const std::string& name, bool one_row) {
    double smallest = 2.0;
    const std::int64_t begin = one_row ? 77 : 0, end = one_row ? 78 : kRows;
    for (double error = 1.0; !failed(name, static_cast<float>(1.0 - error), begin, end).empty();
         error /= 1.25) {
      smallest = error;
    }
    return smallest;
  }

 private:
  static int mantissa_bits(Dtype dtype) {
    return dtype == Dtype::f32 ? 23 : dtype == Dtype::f16 ? 10 : 7;
  }

  // Returns the bound that fails of an output of which `change` was made of these rows.
  template <class Change>
  std::string failed_as(const std::string& name, std::int64_t begin, std::int64_t end,
                        const Change& change) {
    TestTensor& tensor = named(name);
    const TestTensor before = tensor;
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t d = 0; d < 64; ++d) tensor.set(0, 0, r, d, change(tensor.get(0, 0, r, d)));
    }
    const std::string bound = failed(name);
    tensor = before;
    return bound;
  }

  // Fills inputs with numbers rounded to the nearest whole ones.
  void fill_integers() {
    const auto nearest = [](const TestTensor& tensor) {
      return [tensor](auto... at) { return std::round(tensor.get(at...)); };
    };
    test_.fill_q(nearest(test_.q));
    test_.fill_k(nearest(test_.k));
    test_.fill_v(nearest(test_.v));
    test_.fill_dout(nearest(test_.dout));
  }

  TestTensor& named(const std::string& name) {
    return name == "o" ? test_.o : name == "dq" ? test_.dq : name == "dk" ? test_.dk : test_.dv;
  }

  TestProblem test_;
  References references_;
};

// Seen is about twice what was measured at 256 rows and keys; biases of bf16: 4e-3, measured 3e-3.
struct Seen {
  double bias, row;
};
const std::map<std::string, Seen> kSeen = {
    {"f32 o", {6e-06, 6e-05}},    {"f32 dq", {2.2e-05, 0.00042}}, {"f32 dk", {2.2e-05, 0.00042}},
    {"f32 dv", {6e-06, 6e-05}},   {"f16 o", {0.00064, 0.012}},    {"f16 dq", {0.00082, 0.036}},
    {"f16 dk", {0.00082, 0.018}}, {"f16 dv", {0.00064, 0.015}},   {"bf16 o", {0.004, 0.11}},
    {"bf16 dq", {0.004, 0.26}},   {"bf16 dk", {0.004, 0.17}},     {"bf16 dv", {0.004, 0.088}}};

TEST(Bounds, TheSmallestBiasAndRowErrorThatAreSeen) {
  for (const Dtype dtype : kDtypes) {
    Spoilt spoilt(dtype, Fault::none);
    for (const char* name : kOutputs) {
      EXPECT_EQ(spoilt.failed(name), "") << name;
      const double bias = spoilt.smallest_seen(name, false), row = spoilt.smallest_seen(name, true);
      std::printf("%-4s %-2s smallest seen: bias %.2g, error of one row %.2g\n", to_string(dtype),
                  name, bias, row);
      const Seen& seen = kSeen.at(std::string(to_string(dtype)) + " " + name);
      EXPECT_LE(bias, seen.bias) << name;
      EXPECT_LE(row, seen.row) << name;
    }
  }
}

// Truncation is a bias toward 0, in the mean by half a unit of the last place that is left. Lost
// says how many low bits, lost in all of a tensor, are seen at the latest: of elements as they are
// stored, which were rounded well before, and of their sums in fp32. It is one more than measured
// at 256 rows and keys, as twice the bias is.
struct Lost {
  int stored, of_sums;
};
const std::map<std::string, Lost> kLost = {
    {"f32 o", {7, 5}},   {"f32 dq", {9, 7}},   {"f32 dk", {9, 7}},   {"f32 dv", {7, 5}},
    {"f16 o", {2, 11}},  {"f16 dq", {2, 12}},  {"f16 dk", {2, 12}},  {"f16 dv", {2, 11}},
    {"bf16 o", {2, 15}}, {"bf16 dq", {2, 15}}, {"bf16 dk", {2, 15}}, {"bf16 dv", {2, 15}}};

TEST(Bounds, TheSmallestTruncationThatIsSeen) {
  for (const Dtype dtype : kDtypes) {
    Spoilt spoilt(dtype, Fault::none);
    const auto lost_of = [&](const char* name) {
      return kLost.at(std::string(to_string(dtype)) + " " + name);
    };
    std::map<std::string, int> of_sums = spoilt.fewest_seen_of_sums(lost_of("dq").of_sums);
    for (const char* name : kOutputs) {
      EXPECT_EQ(spoilt.failed(name), "") << name;
      const int stored = spoilt.fewest_seen(name, lost_of(name).stored);
      std::printf("%-4s %-2s smallest truncation seen: %d low bits as stored, %d of the sums\n",
                  to_string(dtype), name, stored, of_sums.at(name));
      EXPECT_LE(stored, lost_of(name).stored) << to_string(dtype) << " " << name;
      EXPECT_LE(of_sums.at(name), lost_of(name).of_sums) << to_string(dtype) << " " << name;
    }
  }
}

// With few rows a slope may be anything that a few roundings make of it, and is judged all the
// same.
TEST(Bounds, AFactorIsSeenInFewRows) {
  constexpr std::int64_t kSampled[] = {77, 3, 130, 201, 255};
  for (const Dtype dtype : kDtypes) {
    Spoilt spoilt(dtype, Fault::none);
    for (int count = 2; count <= 5; ++count) {
      std::vector<std::int64_t> rows(kSampled, kSampled + count);
      std::ranges::sort(rows);
      spoilt.sample({.rows = {{.rows = rows}}});
      EXPECT_EQ(spoilt.failed("o"), "") << to_string(dtype) << " " << count;
      for (const float factor : {1.06f, 1.0f / 1.06f}) {
        const std::string bound = spoilt.failed("o", factor, 0, kRows);
        std::printf("%-4s o times %.3f: of %d rows \"%s\"\n", to_string(dtype),
                    static_cast<double>(factor), count, bound.c_str());
        EXPECT_NE(bound, "") << to_string(dtype) << " " << count;
      }
    }
  }
}

// An O of whole numbers may have more of a bias, but is held to the same figure.
TEST(Bounds, ABiasIsSeenOfIntegers) {
  for (const Dtype dtype : kDtypes) {
    Spoilt spoilt(dtype, Fault::none, {}, true);
    EXPECT_EQ(spoilt.failed("o"), "");
    const double bias = spoilt.smallest_seen("o", false);
    std::printf("%-4s o of integers: smallest seen: bias %.2g\n", to_string(dtype), bias);
    EXPECT_LE(bias, kSeen.at(std::string(to_string(dtype)) + " o").bias);
  }
}

// Under a causal mask rows of O, dK and dV differ in size by orders of magnitude, and a small one
// that is missing hides behind the largest element.
TEST(Bounds, AnyRowThatIsMissingIsSeen) {
  for (const Dtype dtype : kDtypes) {
    Spoilt spoilt(dtype, Fault::none, parse_mask("causal"));
    for (const char* name : {"o", "dk", "dv"}) {
      int by_row = 0;
      for (std::int64_t row = 1; row < kRows; row += 6) {
        const std::string bound = spoilt.failed(name, 0.0f, row, row + 1);
        EXPECT_NE(bound, "") << to_string(dtype) << " " << name << " row " << row;
        by_row += bound == "row" ? 1 : 0;
      }
      std::printf("%-4s %-2s: of 43 missing rows %d fail by the bound of rows alone\n",
                  to_string(dtype), name, by_row);
    }
  }
}

TEST(Bounds, TruncatedDsIsSeen) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    Spoilt spoilt(dtype, Fault::ds_truncated);
    std::printf("%s dS truncated: dq fails \"%s\", dk \"%s\"\n", to_string(dtype),
                spoilt.failed("dq").c_str(), spoilt.failed("dk").c_str());
    EXPECT_EQ(spoilt.failed("dq"), "slope");
    EXPECT_EQ(spoilt.failed("dk"), "slope");
    EXPECT_EQ(spoilt.failed("dv"), "");
  }
}

}  // namespace
}  // namespace attnlab::reference
