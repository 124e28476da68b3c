#include "harness/gate/significance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace attnlab {
namespace {

using Samples = std::vector<double>;

// By counting all orders of the values.
TEST(MannWhitney, IsExactForSmallSamples) {
  const Samples low = {1, 2, 3, 4, 5}, high = {6, 7, 8, 9, 10};
  EXPECT_DOUBLE_EQ(mann_whitney_p(low, high), 2.0 / 252.0);
  EXPECT_DOUBLE_EQ(mann_whitney_p(high, low), 2.0 / 252.0);
  const Samples a = {1.1, 2.5, 3.7, 4.2}, b = {2.6, 3.9, 5.5, 6.1, 7.0};
  EXPECT_NEAR(mann_whitney_p(a, b), 14.0 / 126.0, 1e-12);
  const Samples odd = {1, 3, 5, 7}, even = {2, 4, 6, 8};
  EXPECT_NEAR(mann_whitney_p(odd, even), 48.0 / 70.0, 1e-12);
}

TEST(MannWhitney, TiesTakeMeanRanks) {
  const Samples a = {1, 2, 2, 3, 3, 3}, b = {2, 3, 4, 4, 5, 5, 6};
  EXPECT_NEAR(mann_whitney_p(a, b), 0.028410955971066822, 1e-12);
  const Samples equal(9, 1.0);
  EXPECT_EQ(mann_whitney_p(equal, equal), 1.0);
}

// Large samples take the approximation, which is close to what is exact.
TEST(MannWhitney, TheApproximationIsClose) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> draw(0.0, 1.0);
  Samples a(50), b(50);
  std::ranges::generate(a, [&] { return draw(generator); });
  std::ranges::generate(b, [&] { return draw(generator) + 0.1; });
  const double exact = mann_whitney_p(a, b);
  a.push_back(a.back() + 1e-9);  // 51 x 50 pairs are too many
  EXPECT_NEAR(mann_whitney_p(a, b), exact, 0.15 * exact);
}

// Under the null hypothesis at most 5 % of the p-values are below 0.05.
TEST(MannWhitney, FalseAlarmsAreAsRareAsPromised) {
  std::mt19937 generator(2);
  std::normal_distribution<double> draw;
  int alarms = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    Samples a(9), b(9);
    std::ranges::generate(a, [&] { return draw(generator); });
    std::ranges::generate(b, [&] { return draw(generator); });
    if (mann_whitney_p(a, b) <= 0.05) ++alarms;
  }
  EXPECT_LE(alarms, 0.06 * kTrials);
  EXPECT_GE(alarms, 0.03 * kTrials);  // it does reject
}

TEST(MannWhitney, TheLeastIsThatOfSamplesApart) {
  EXPECT_NEAR(least_mann_whitney_p(5, 5), 2.0 / 252.0, 1e-12);
  EXPECT_NEAR(least_mann_whitney_p(3, 4), 2.0 / 35.0, 1e-12);
  EXPECT_EQ(least_mann_whitney_p(1, 1), 1.0);
}

TEST(Holm, AdjustsStepByStep) {
  EXPECT_EQ(holm_adjusted(Samples{}), Samples{});
  const Samples adjusted = holm_adjusted(Samples{0.01, 0.04, 0.03, 0.005});
  const Samples expected = {0.03, 0.06, 0.06, 0.02};
  ASSERT_EQ(adjusted.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(adjusted[i], expected[i]);
  EXPECT_EQ(holm_adjusted(Samples{0.9, 0.8}), (Samples{1.0, 1.0}));
}

TEST(MedianRatio, PairedSamplesShareTheirDrift) {
  Samples base, now;
  for (int i = 0; i < 20; ++i) {  // drifts by 20 %, and the second is 3 % slower in each round
    base.push_back(1.0 + 0.01 * i);
    now.push_back(1.03 * base.back());
  }
  const Interval paired = median_ratio_interval95(base, now, true);
  EXPECT_NEAR(paired.low, 1.03, 1e-9);
  EXPECT_NEAR(paired.high, 1.03, 1e-9);
  const Interval apart = median_ratio_interval95(base, now, false);
  EXPECT_LT(apart.low, 1.01);
  EXPECT_GT(apart.high, 1.05);
}

}  // namespace
}  // namespace attnlab
