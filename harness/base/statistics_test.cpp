#include "harness/base/statistics.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace attnlab {
namespace {

TEST(Statistics, QuantilesOfType7) {
  // Position p * (n - 1) = 0.25 * 3 = 0.75 lies between 1 and 2; 0.5 * 3 = 1.5 between 2 and 4.
  const std::vector<double> four = {8.0, 1.0, 4.0, 2.0};
  EXPECT_DOUBLE_EQ(quantile(four, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(median(four), 3.0);
  EXPECT_DOUBLE_EQ(quantile(four, 0.75), 5.0);
  EXPECT_DOUBLE_EQ(quantile(four, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(quantile(four, 1.0), 8.0);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{5.0, 1.0, 3.0}), 3.0);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{7.0}), 7.0);
}

TEST(Statistics, IntervalOfOneValueIsThatValue) {
  const Interval interval = median_interval95(std::vector<double>{2.5, 2.5, 2.5});
  EXPECT_DOUBLE_EQ(interval.low, 2.5);
  EXPECT_DOUBLE_EQ(interval.high, 2.5);
}

// With n = 3 samples, the median of a resample is the smallest with probability P(at least two of
// three draws hit it) = 7/27 and likewise the largest: both ends lie beyond 2.5 %.
TEST(Statistics, IntervalOfThreeSamplesSpansThem) {
  const Interval interval = median_interval95(std::vector<double>{3.0, 1.0, 2.0});
  EXPECT_DOUBLE_EQ(interval.low, 1.0);
  EXPECT_DOUBLE_EQ(interval.high, 3.0);
}

// For large n the median of n values of N(0, 1) has standard deviation sqrt(pi / (2 n)): 0.0396 for
// n = 1001, so the interval is about 2 * 1.96 * 0.0396 = 0.155 wide.
TEST(Statistics, IntervalHasTheWidthOfTheory) {
  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  std::vector<double> samples(1001);
  for (double& sample : samples) sample = normal(generator);
  const Interval interval = median_interval95(samples);
  EXPECT_LT(interval.low, median(samples));
  EXPECT_GT(interval.high, median(samples));
  EXPECT_NEAR(interval.high - interval.low, 0.155, 0.06);
}

TEST(Statistics, IntervalIsDeterministicAndIgnoresOrder) {
  const Interval a = median_interval95(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Interval b = median_interval95(std::vector<double>{9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
}

}  // namespace
}  // namespace attnlab
