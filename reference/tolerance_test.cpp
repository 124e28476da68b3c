// The rule passes correct kernels, from one key up, and fails wrong ones. The kernel here is a
// small tiled one in fp32 that can be broken in one place at a time.
#include "reference/tolerance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "reference/test_kernel.h"
#include "reference/test_support.h"

namespace attnlab::reference {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;
constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
References all_references(TestProblem& test) {
  const Samples samples = choose_samples(test.problem, kNoLimit, 0);
  return make_references(test.problem, test.tensors(), samples, 2);
}

std::vector<Verdict> judge(TestProblem& test) {
  return judge(test.problem, test.tensors(), all_references(test));
}

// Judges the kernel on normal inputs, queries multiplied with `factor`.
std::vector<Verdict> judge_kernel(const Problem& problem, std::uint64_t seed,
                                  Fault fault = Fault::none, float factor = 1.0f) {
  TestProblem test(problem);
  test.fill_normal(seed);
  const TestTensor q = test.q;
  test.fill_q([&](auto... at) { return factor * q.get(at...); });
  run_forward(test, fault);
  return judge(test);
}

void expect_pass(const std::vector<Verdict>& verdicts) {
  ASSERT_EQ(verdicts.size(), 2u);
  for (const Verdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.pass) << verdict.message;
    EXPECT_EQ(verdict.coverage, 1.0);
  }
}

TEST(Tolerance, PassesACorrectKernelFromOneKeyUp) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const std::int64_t seqlen_k : {1, 2, 3, 17, 64, 127, 512, 4096}) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        expect_pass(judge_kernel(
            {.dtype = dtype, .seqlen_q = seqlen_k > 1000 ? 5 : 33, .seqlen_k = seqlen_k}, seed));
      }
    }
  }
}

TEST(Tolerance, PassesACorrectKernelUnderMasksDropoutAndSharedHeads) {
  for (const char* mask : {"none", "causal", "window:7:3", "causal+blocks:butterfly:16x8"}) {
    for (const double dropout : {0.0, 0.3}) {
      expect_pass(judge_kernel({.batch = 2,
                                .num_heads_q = 4,
                                .num_heads_kv = 2,
                                .seqlen_q = 97,
                                .seqlen_k = 97,
                                .head_dim = 20,
                                .mask = parse_mask(mask),
                                .dropout = dropout,
                                .seed = 5,
                                .layout = Layout::bhsd},
                               3));
    }
  }
}

TEST(Tolerance, PassesLargeLogits) {
  for (const std::int64_t seqlen_k : {2, 3, 64}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      expect_pass(judge_kernel({.seqlen_q = 32, .seqlen_k = seqlen_k, .head_dim = 256}, seed,
                               Fault::none, 30.0f));
    }
  }
}

// A kernel that multiplies q with softmax_scale first rounds other numbers than the twin: a product
// of 60 comes first, all that follow are rounded to its step, which is another before the scale.
TEST(Tolerance, PassesScoresWithALargeProductWhateverIsScaled) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    TestProblem test({.seqlen_k = 3, .head_dim = 216});
    test.fill_normal(seed);
    for (TestTensor* tensor : {&test.q, &test.k}) {
      for (std::int64_t r = 0; r < (tensor == &test.q ? 1 : 3); ++r) {
        tensor->set(0, 0, r, 0, 29.7f);
      }
    }
    test.scales_q = true;
    run_forward(test, Fault::none);
    expect_pass(judge(test));
  }
}

TEST(Tolerance, PassesOneRowOfOneElement) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const std::int64_t seqlen_k : {1, 2, 3, 17, 64}) {
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        expect_pass(judge_kernel({.dtype = dtype, .seqlen_k = seqlen_k, .head_dim = 1}, seed));
      }
    }
  }
}

TEST(Tolerance, PassesProblemsWhereNothingIsSeen) {
  Problem problem = {.seqlen_q = 4, .seqlen_k = 6, .mask = parse_mask("padding")};
  problem.lengths = {.kind = LengthsKind::padding, .keys = {0}};
  const auto verdicts = judge_kernel(problem, 1);
  expect_pass(verdicts);
  EXPECT_EQ(verdicts[0].rel_fro, 0.0);
  EXPECT_EQ(verdicts[0].bound, 0x1p-100);  // an O that is not exactly 0 fails all the same
}

// Rows are judged one by one, so that none can help another: O and lse notice the missing key of
// 4096 in (nearly) every row. An absolute bound on lse would not.
TEST(Tolerance, OneKeyOf4096Dropped) {
  TestProblem test({.seqlen_q = 64, .seqlen_k = 4096});
  test.fill_normal(1);
  run_forward(test, Fault::last_key_dropped);
  const RowReference all = all_references(test).rows.at(0);
  int caught_in_o = 0, caught_in_lse = 0;
  for (std::int64_t row = 0; row < 64; ++row) {
    RowReference one;
    one.sample.rows.push_back(row);
    one.lse = all.lse.segment(row, 1);
    one.score_bound = all.score_bound.segment(row, 1);
    one.o = {.value = all.o.value.row(row),
             .twin = all.o.twin.row(row),
             .sizes = all.o.sizes.segment(row, 1)};
    const References references = {.rows = {one}, .columns = {}};
    const auto verdicts = judge(test.problem, test.tensors(), references);
    caught_in_o += verdicts[0].pass ? 0 : 1;
    caught_in_lse += verdicts[1].pass ? 0 : 1;
  }
  RecordProperty("caught_in_o", caught_in_o);
  RecordProperty("caught_in_lse", caught_in_lse);
  EXPECT_EQ(caught_in_o, 64);
  EXPECT_GE(caught_in_lse, 60);
}

TEST(Tolerance, LastKeyOrTileDroppedAtTheEdgesOfTiles) {
  for (const std::int64_t seqlen_k : {2, 33, 64, 65, 97, 127, 128, 129}) {
    for (const Fault fault : {Fault::last_key_dropped, Fault::last_tile_dropped}) {
      const auto verdicts = judge_kernel({.seqlen_q = 16, .seqlen_k = seqlen_k}, 2, fault);
      EXPECT_FALSE(verdicts[0].pass) << seqlen_k;
      EXPECT_FALSE(verdicts[1].pass) << seqlen_k;
    }
  }
}

TEST(Tolerance, ForgottenRescale) {
  const auto verdicts = judge_kernel({.seqlen_q = 16, .seqlen_k = 100}, 3, Fault::no_rescale);
  EXPECT_FALSE(verdicts[0].pass);
  EXPECT_TRUE(verdicts[1].pass) << verdicts[1].message;
}

TEST(Tolerance, LseInTheWrongBase) {
  const auto verdicts = judge_kernel({.seqlen_q = 16, .seqlen_k = 100}, 3, Fault::lse_in_log2);
  EXPECT_TRUE(verdicts[0].pass) << verdicts[0].message;
  EXPECT_FALSE(verdicts[1].pass);
}

TEST(Tolerance, CausalMaskOffByOne) {
  const Problem problem = {.seqlen_q = 200, .seqlen_k = 200, .mask = parse_mask("causal")};
  const auto verdicts = judge_kernel(problem, 3, Fault::mask_off_by_one);
  EXPECT_FALSE(verdicts[0].pass);
  EXPECT_FALSE(verdicts[1].pass);
}

TEST(Tolerance, DropoutWithoutItsScale) {
  const Problem problem = {.seqlen_q = 40, .seqlen_k = 60, .dropout = 0.1};
  const auto verdicts = judge_kernel(problem, 3, Fault::dropout_unscaled);
  EXPECT_FALSE(verdicts[0].pass);
  EXPECT_TRUE(verdicts[1].pass) << verdicts[1].message;
}

TEST(Tolerance, WrongHeadOfKAndV) {
  const Problem problem = {.num_heads_q = 4, .num_heads_kv = 2, .seqlen_q = 10, .seqlen_k = 60};
  EXPECT_FALSE(judge_kernel(problem, 3, Fault::kv_head_off)[0].pass);
}

// Spoils a correct result of a problem with empty rows (0 and 1) in one place.
class OnePlace : public testing::Test {
 protected:
  OnePlace()
      : test_({.num_heads_q = 2,
               .num_heads_kv = 2,
               .seqlen_q = 9,
               .seqlen_k = 7,
               .head_dim = 8,
               .mask = parse_mask("causal")}) {
    test_.fill_normal(4);
    run_forward(test_, Fault::none);
  }

  // Returns the message of the tensor's verdict; the other tensor must pass.
  std::string message_of(std::size_t tensor) {
    const auto verdicts = judge(test_);
    EXPECT_TRUE(verdicts[1 - tensor].pass) << verdicts[1 - tensor].message;
    EXPECT_EQ(verdicts[tensor].pass, verdicts[tensor].message.empty());
    return verdicts[tensor].message;
  }

  TestProblem test_;
};

TEST_F(OnePlace, Untouched) {
  EXPECT_EQ(message_of(0), "");
  EXPECT_EQ(message_of(1), "");
}

TEST_F(OnePlace, NotFiniteInO) {
  for (const float value : {kNaN, kInfinite, -kInfinite}) {
    test_.o.set(0, 1, 5, 3, value);
    const std::string message = message_of(0);
    EXPECT_NE(message.find("batch 0 head 1 row 5 column 3: got "), std::string::npos) << message;
    EXPECT_NE(message.find(", want "), std::string::npos) << message;
    EXPECT_NE(message.find(", bound "), std::string::npos) << message;
    EXPECT_NE(message.find(test_.problem.id()), std::string::npos) << message;
  }
}

TEST_F(OnePlace, NotFiniteInLse) {
  for (const float value : {kNaN, kInfinite, -kInfinite}) {
    test_.lse_at(0, 1, 5) = value;
    const std::string message = message_of(1);
    EXPECT_NE(message.find("lse: batch 0 head 1 row 5: got "), std::string::npos) << message;
    EXPECT_NE(message.find(test_.problem.id()), std::string::npos) << message;
  }
}

TEST_F(OnePlace, FiniteLseOfARowThatSeesNothing) {
  test_.lse_at(0, 0, 1) = -1e30f;
  EXPECT_NE(message_of(1).find("head 0 row 1: got -1"), std::string::npos);
}

TEST_F(OnePlace, ARowThatSeesNothingIsExactlyZero) {
  test_.o.set(0, 0, 1, 2, 1e-30f);
  EXPECT_NE(message_of(0).find("head 0 row 1 column 2: got 1"), std::string::npos);
  test_.o.set(0, 0, 1, 2, -0.0f);
  EXPECT_EQ(message_of(0), "");
}

TEST_F(OnePlace, LseJustAboveItsBound) {
  const RowReference reference = all_references(test_).rows.at(0);
  const double want = reference.lse(6);
  const double bound = 0x1p-19 * (1.0 + static_cast<double>(reference.score_bound(6)));
  test_.lse_at(0, 0, 6) = static_cast<float>(want + 0.8 * bound);
  EXPECT_EQ(message_of(1), "");
  test_.lse_at(0, 0, 6) = static_cast<float>(want + 1.2 * bound);
  EXPECT_NE(message_of(1).find("head 0 row 6: got "), std::string::npos);
}

// Writes ref + error(i) of element i into o, error in units of the bound of the maximum.
std::string judge_with_errors(const std::function<double(std::int64_t i)>& error) {
  TestProblem test({.seqlen_q = 64, .seqlen_k = 50, .head_dim = 32});
  test.fill_normal(5);
  run_forward(test, Fault::none);
  const References references = all_references(test);
  const double bound = judge(test.problem, test.tensors(), references)[0].bound;
  for (std::int64_t i = 0; i < 64 * 32; ++i) {
    const double spoilt = references.rows[0].o.value(i / 32, i % 32) + error(i) * bound;
    test.o.set(0, 0, i / 32, i % 32, static_cast<float>(spoilt));
  }
  return judge(test.problem, test.tensors(), references)[0].message;
}

TEST(Tolerance, MaximumMeanAndNormEachDecide) {
  EXPECT_EQ(judge_with_errors([](auto) { return 0.1; }), "");
  EXPECT_EQ(judge_with_errors([](auto i) { return i == 77 ? 0.9 : 0.0; }), "");
  const std::string maximum = judge_with_errors([](auto i) { return i == 77 ? 1.1 : 0.0; });
  EXPECT_NE(maximum.find("o: batch 0 head 0 row 2 column 13: got"), std::string::npos) << maximum;
  const std::string mean = judge_with_errors([](auto) { return 0.6; });
  EXPECT_NE(mean.find("mean"), std::string::npos) << mean;
  const std::string norm = judge_with_errors([](auto i) { return i % 6 == 0 ? 0.9 : 0.0; });
  EXPECT_NE(norm.find("Frobenius"), std::string::npos) << norm;
}

// Returns the bound that fails for 200 rows of one element: `large` of them near 1, with so many
// `different` values, the rest 2^-10. Each of the large ones is off by e / 4 in the twin, and in
// the kernel every tenth, or all if there are fewer than ten, by `error` times e.
std::string failed_of_large_rows(int large, int different, double error) {
  constexpr double kE = 0x1p-8, kSmall = 0x1p-10;
  Precision precision = {.dtype = Dtype::bf16, .length = 8.0};
  ComparisonSum sum(precision);
  for (int i = 0; i < 200; ++i) {
    const double value = i < large ? 1.0 + 0x1p-12 * (i % different) : kSmall;
    Statistics row;
    row.sum_of_squares = value * value;
    row.unit = kE;
    if (i < large) {
      row.twin.add(0.25 * kE);
      row.kernel.add(large < 10 || i % 10 == 0 ? error * kE : 0.0);
    }
    row.end_row(value, 1.0, 0.0);
    sum.add(row, {.row = i, .got = value, .want = value}, {});
  }
  const Problem problem = {.dtype = Dtype::bf16, .seqlen_q = 200, .seqlen_k = 8, .head_dim = 1};
  return judge_comparison(problem, Products::storage, {.name = "o"}, sum.end(), 200).failed_bound;
}

// Errors average out over many rows that differ, not over few rows or many equal ones.
TEST(Tolerance, TheNormGoesByTheRowsOfSizeThatDiffer) {
  EXPECT_EQ(failed_of_large_rows(2, 2, 1.25), "");
  EXPECT_EQ(failed_of_large_rows(4, 4, 0.85), "");
  EXPECT_EQ(failed_of_large_rows(200, 4, 1.3), "");
  EXPECT_EQ(failed_of_large_rows(200, 200, 1.15), "");
  EXPECT_EQ(failed_of_large_rows(200, 200, 1.3), "norm");
}

TEST(Tolerance, TheLargestErrorGoesByTheRowsOfSizeThatDiffer) {
  EXPECT_EQ(failed_of_large_rows(200, 4, 2.9), "");
  EXPECT_EQ(failed_of_large_rows(200, 4, 3.1), "max");
  EXPECT_EQ(failed_of_large_rows(200, 200, 2.7), "max");
}

// Returns the bound that fails for 20 slices of 200 rows of 1, of which the first `biased` are all
// off by 0.06 one way, where those of the twin are off by 0.05 either way.
std::string failed_of_bias(Products products, std::int64_t keys, int biased) {
  const Problem problem = {.dtype = Dtype::e4m3,
                           .num_heads_q = 20,
                           .num_heads_kv = 20,
                           .seqlen_q = 200,
                           .seqlen_k = keys,
                           .head_dim = 1};
  ComparisonSum sum(precision_of(problem, products, Side::query));
  for (int i = 0; i < 20 * 200; ++i) {
    const double bias = i / 200 < biased ? 0.06 : 0.0;
    Statistics row;
    row.sum_of_squares = 1.0;
    row.twin.add(0.05);
    row.kernel.add(bias);
    row.kernel_along = bias;
    row.end_row(1.0, 1.0, 0.0);
    sum.add(row, {.head = i / 200, .row = i % 200, .got = 1.0 + bias, .want = 1.0}, {});
  }
  return judge_comparison(problem, products, {.name = "o"}, sum.end(), 4000).failed_bound;
}

// Sums that are not promoted are held to another bound, which has another name.
TEST(Tolerance, ABiasOfE4m3IsCalledDriftWhereSumsAreNotPromoted) {
  EXPECT_EQ(failed_of_bias(Products::storage, 64, 20), "slope");
  EXPECT_EQ(failed_of_bias(Products::storage, 64, 1), "slice_slope");
  EXPECT_EQ(failed_of_bias(Products::unpromoted, 64, 20), "drift");
  EXPECT_EQ(failed_of_bias(Products::unpromoted, 64, 1), "slice_drift");
  EXPECT_EQ(failed_of_bias(Products::storage, 32768, 20), "slope");
  EXPECT_EQ(failed_of_bias(Products::unpromoted, 32768, 20), "");
}

// Returns the bound that fails for 8002 rows of 0.9, but that the first two and `large` of each
// hundred are 30, each a little more than the one before. The first two are off by 1, up and down,
// where the twin is exact.
std::string failed_of_two_large_rows(Products products, int large) {
  const Problem problem = {.dtype = Dtype::e4m3, .seqlen_q = 8002, .seqlen_k = 2048, .head_dim = 1};
  ComparisonSum sum(precision_of(problem, products, Side::query));
  for (int i = 0; i < 8002; ++i) {
    const double value = (i < 2 || i % 100 < large ? 30.0 : 0.9) * (1.0 + 1e-6 * i);
    const double error = i == 0 ? 1.0 : i == 1 ? -1.0 : 0.0;
    Statistics row;
    row.sum_of_squares = value * value;
    row.twin.add(i < 2 ? 0.0 : 0.01);
    row.kernel.add(std::abs(error));
    row.kernel_along = error * value;
    row.end_row(value, 1.0, 0.0);
    sum.add(row, {.row = i, .got = value + error, .want = value}, {});
  }
  return judge_comparison(problem, products, {.name = "o"}, sum.end(), 8002).failed_bound;
}

// The twin rounds the largest P of no row, and the maxima of sums that are not promoted may lag.
TEST(Tolerance, TheLargestErrorGoesByTheLargestRowsWhereMaximaMayLag) {
  EXPECT_EQ(failed_of_two_large_rows(Products::storage, 0), "max");
  EXPECT_EQ(failed_of_two_large_rows(Products::unpromoted, 0), "");
  EXPECT_EQ(failed_of_two_large_rows(Products::unpromoted, 20), "max");
}

// Returns the bound that fails for rows of two elements, 1 and then `step` more from row to row,
// all of whose first elements are off by `error` where the twin is exact.
std::string failed_of_exact_twin(Dtype dtype, int rows, double step, double error) {
  ComparisonSum sum({.dtype = dtype, .length = 8.0});
  for (int i = 0; i < rows; ++i) {
    const double value = 1.0 + step * i;
    Statistics row;
    row.sum_of_squares = 2.0 * value * value;
    for (const double error_here : {error, 0.0}) {
      row.twin.add(0.0);
      row.kernel.add(error_here);
    }
    row.end_row(value, 2.0, 0.0);
    sum.add(row, {.row = i, .got = value, .want = value}, {});
  }
  const Problem problem = {.dtype = dtype, .seqlen_q = rows, .seqlen_k = 8, .head_dim = 2};
  return judge_comparison(problem, Products::storage, {.name = "dq"}, sum.end(), 200).failed_bound;
}

// The scores of a row shift all of its P alike, in one row as far as in the largest element.
TEST(Tolerance, TheNormOfOneRowMayBeOffAsItsLargestElement) {
  const auto failed = [](int rows, double error) {
    return failed_of_exact_twin(Dtype::f32, rows, 0x1p-12, error * 0x1p-20);
  };
  EXPECT_EQ(failed(1, 3.9), "");
  EXPECT_EQ(failed(1, 4.3), "max");
  EXPECT_EQ(failed(100, 2.5), "mean");
  EXPECT_EQ(failed(100, 1.8), "norm");
}

// With V = 1 all rows are equal, and a correct kernel is hardly ever a step off.
TEST(Tolerance, TheMeanGoesByTheRoundingsOfAllRowsThoughTheyAreEqual) {
  EXPECT_EQ(failed_of_exact_twin(Dtype::bf16, 100, 0.0, 0x1p-9), "mean");
  EXPECT_EQ(failed_of_exact_twin(Dtype::bf16, 1, 0.0, 0x1p-9), "");
}

TEST(Tolerance, RootMeanSquareIsOfAllErrorsOverTheTwins) {
  TestProblem test({.seqlen_q = 64, .seqlen_k = 50, .head_dim = 32});
  test.fill_normal(5);
  run_forward(test, Fault::none);
  const References references = all_references(test);
  const Expected& o = references.rows[0].o;
  const auto store = [&](auto&& value) {
    for (std::int64_t i = 0; i < 64 * 32; ++i) {
      test.o.set(0, 0, i / 32, i % 32, static_cast<float>(value(i, i / 32, i % 32)));
    }
    return judge(test.problem, test.tensors(), references);
  };
  const auto twin = store([&](auto, auto row, auto d) { return o.twin(row, d); });
  EXPECT_EQ(twin[0].rms_to_twin, 1.0);
  EXPECT_FALSE(twin[1].rms_to_twin.has_value());

  const auto spoilt = store([&](auto i, auto row, auto d) {  // one element in four
    return o.value(row, d) + (i % 4 == 0 ? 1e-2 : 0.0);
  });
  const double twin_rms = (o.twin.cast<double>() - o.value).norm() / std::sqrt(64.0 * 32.0);
  EXPECT_NEAR(spoilt[0].rms_to_twin.value() * twin_rms, 0.5e-2, 1e-7);
}

TEST(Tolerance, NothingComparedIsNoPass) {
  TestProblem test({.seqlen_q = 3, .seqlen_k = 3});
  for (const Verdict& verdict : judge(test.problem, test.tensors(), References{})) {
    EXPECT_FALSE(verdict.pass);
    EXPECT_EQ(verdict.coverage, 0.0);
  }
}

TEST(Tolerance, CoverageIsTheShareOfRows) {
  TestProblem test({.num_heads_q = 2, .num_heads_kv = 2, .seqlen_q = 10, .seqlen_k = 3});
  test.fill_normal(6);
  run_forward(test, Fault::none);
  const Samples samples = {.rows = {{.head = 1, .rows = {0, 4, 9}}}, .columns = {}};
  const References references = make_references(test.problem, test.tensors(), samples, 1);
  for (const Verdict& verdict : judge(test.problem, test.tensors(), references)) {
    EXPECT_TRUE(verdict.pass) << verdict.message;
    EXPECT_EQ(verdict.coverage, 0.15);
  }
}

}  // namespace
}  // namespace attnlab::reference
