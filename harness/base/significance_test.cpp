#include "harness/base/significance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace attnlab {
namespace {

using Samples = std::vector<double>;

double p_of(const Samples& a, const Samples& b) { return mann_whitney(a, b).p; }

// The values expected were counted over all ways in which the samples can fall.
TEST(MannWhitney, IsExactForSmallSamples) {
  const Samples low = {1, 2, 3, 4, 5}, high = {6, 7, 8, 9, 10};
  EXPECT_NEAR(p_of(low, high), 2.0 / 252.0, 1e-12);
  EXPECT_NEAR(p_of(high, low), 2.0 / 252.0, 1e-12);
  EXPECT_NEAR(p_of({1.1, 2.5, 3.7, 4.2}, {2.6, 3.9, 5.5, 6.1, 7.0}), 14.0 / 126.0, 1e-12);
  EXPECT_NEAR(p_of({1, 3, 5, 7}, {2, 4, 6, 8}), 48.0 / 70.0, 1e-12);
}

// There are ten ways to take two of 1, 2, 2, 3, 3. Two of them (1 2 and 1 2) have a sum of ranks as
// small as the sample's, and one (3 3) lies as far on the other side.
TEST(MannWhitney, TiesTakeMeanRanks) {
  EXPECT_NEAR(p_of({1, 2}, {2, 3, 3}), 3.0 / 10.0, 1e-12);
  const Samples equal(9, 1.0);
  EXPECT_EQ(p_of(equal, equal), 1.0);
  EXPECT_EQ(mann_whitney(equal, equal).least_p, 1.0);
}

// A tie within one sample takes nothing from what samples that lie apart can say.
TEST(MannWhitney, ATieWithinASampleIsNoLoss) {
  Samples low, high;
  for (int i = 0; i < 9; ++i) {
    low.push_back(1.0 + 0.01 * std::min(i, 7));  // the last two are equal
    high.push_back(2.0 + 0.01 * i);
  }
  EXPECT_LT(p_of(low, high), 5e-5);
  EXPECT_DOUBLE_EQ(mann_whitney(low, high).least_p, p_of(low, high));
}

// Large samples take the approximation, which is close to what is exact.
TEST(MannWhitney, TheApproximationIsClose) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> draw(0.0, 1.0);
  Samples a(20), b(20);
  std::ranges::generate(a, [&] { return draw(generator); });
  std::ranges::generate(b, [&] { return draw(generator) + 0.2; });
  const double exact = p_of(a, b);
  a.push_back(a.back() + 1e-9);  // 21 x 20 pairs are too many for the exact test
  EXPECT_NEAR(p_of(a, b), exact, 0.2 * exact);
  Samples apart = b;
  for (double& value : apart) value += 10.0;
  EXPECT_DOUBLE_EQ(mann_whitney(a, apart).least_p, p_of(a, apart));
}

// Under the null hypothesis at most 5 % of the p-values are below 0.05, with and without ties.
TEST(MannWhitney, FalseAlarmsAreAsRareAsPromised) {
  std::mt19937 generator(2);
  std::normal_distribution<double> draw;
  for (const double step : {0.0, 0.5}) {
    const auto value = [&] {
      const double drawn = draw(generator);
      return step == 0.0 ? drawn : step * std::round(drawn / step);
    };
    int alarms = 0;
    constexpr int kTrials = 2000;
    for (int trial = 0; trial < kTrials; ++trial) {
      Samples a(9), b(9);
      std::ranges::generate(a, value);
      std::ranges::generate(b, value);
      if (p_of(a, b) <= 0.05) ++alarms;
    }
    EXPECT_LE(alarms, 0.06 * kTrials) << step;
    EXPECT_GE(alarms, 0.03 * kTrials) << step << ": it does reject";
  }
}

TEST(MannWhitney, TheLeastIsThatOfSamplesApart) {
  EXPECT_NEAR(mann_whitney(Samples{1, 3, 5, 7, 9}, Samples{2, 4, 6, 8, 10}).least_p, 2.0 / 252.0,
              1e-12);
  EXPECT_NEAR(mann_whitney(Samples{1, 2, 3}, Samples{4, 5, 6, 7}).least_p, 2.0 / 35.0, 1e-12);
  EXPECT_EQ(mann_whitney(Samples{1}, Samples{2}).least_p, 1.0);
}

// Either sample may be the longer one.
TEST(MannWhitney, IsTheSameFromBothSides) {
  Samples many(400);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  EXPECT_NEAR(p_of(many, {1000.0}), 2.0 / 401.0, 1e-12);
  EXPECT_NEAR(p_of({1000.0}, many), 2.0 / 401.0, 1e-12);
}

TEST(Holm, AdjustsStepByStep) {
  EXPECT_EQ(holm_adjusted(Samples{}), Samples{});
  const Samples adjusted = holm_adjusted(Samples{0.01, 0.04, 0.03, 0.005});
  const Samples expected = {0.03, 0.06, 0.06, 0.02};
  ASSERT_EQ(adjusted.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(adjusted[i], expected[i]);
  EXPECT_EQ(holm_adjusted(Samples{0.9, 0.8}), (Samples{1.0, 1.0}));
}

TEST(MedianRatio, HoldsTheRatioOfWhatWasDrawn) {
  std::mt19937 generator(3);
  std::normal_distribution<double> draw(1.0, 0.01);
  Samples base(30), now(30);
  std::ranges::generate(base, [&] { return draw(generator); });
  std::ranges::generate(now, [&] { return 1.1 * draw(generator); });
  const Interval interval = median_ratio_interval95(base, now);
  EXPECT_LT(interval.low, 1.1);
  EXPECT_GT(interval.high, 1.1);
  EXPECT_GT(interval.low, 1.08);
  EXPECT_LT(interval.high, 1.12);
}

}  // namespace
}  // namespace attnlab
