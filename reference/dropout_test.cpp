#include "reference/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attnlab::reference {
namespace {

struct Worked {
  std::int64_t row, col;
  std::uint32_t block_col, block_row, lane;
  int word;
  bool upper_half;
};

// Worked by hand, row 29 = 16 + 13 e.g. is row 13 of the second block row, in the lower quadrant,
// row 5 there; column 42 = 2 * 16 + 10 is column 10 of the third block column, in the right
// quadrant, column 2 there: lane 4 * 5 + 2 / 2 = 21, h = 4 + 2 + 0 = 6, so word 3, lower half.
constexpr Worked kWorked[] = {
    {0, 0, 0, 0, 0, 0, false},    {0, 1, 0, 0, 0, 0, true},    {0, 2, 0, 0, 1, 0, false},
    {0, 8, 0, 0, 0, 2, false},    {8, 0, 0, 0, 0, 1, false},   {8, 9, 0, 0, 0, 3, true},
    {7, 7, 0, 0, 31, 0, true},    {15, 15, 0, 0, 31, 3, true}, {1, 0, 0, 0, 4, 0, false},
    {16, 0, 0, 1, 0, 0, false},   {0, 16, 1, 0, 0, 0, false},  {29, 42, 2, 1, 21, 3, false},
    {100, 37, 2, 6, 18, 0, true}, {74, 5, 0, 4, 10, 1, true},
};

TEST(Dropout, PositionsWorkedByHand) {
  const Problem problem = {.batch = 3, .num_heads_q = 5};
  for (const Worked& worked : kWorked) {
    const DropoutSource source = dropout_source(problem, 2, 3, worked.row, worked.col);
    const PhiloxCounter counter = {
        .x = worked.block_col, .y = worked.block_row, .z = 13, .w = worked.lane};
    EXPECT_EQ(source.counter, counter) << worked.row << ", " << worked.col;
    EXPECT_EQ(source.word, worked.word) << worked.row << ", " << worked.col;
    EXPECT_EQ(source.upper_half, worked.upper_half) << worked.row << ", " << worked.col;
  }
}

// The published known answer of Philox 4x32-10 for counter 0 and key 0 begins with the word
// 6627e8d5: element (0, 0) gets e8d5, element (0, 1) gets 6627.
TEST(Dropout, AKnownAnswerEndsInTheRightElements) {
  Problem problem;
  const auto kept_below = [&problem](std::uint32_t threshold, std::int64_t col) {
    problem.dropout = static_cast<double>(threshold) / 65536.0;
    return element_is_kept(problem, 0, 0, 0, col);
  };
  EXPECT_TRUE(kept_below(0xE8D5, 0));
  EXPECT_FALSE(kept_below(0xE8D6, 0));
  EXPECT_TRUE(kept_below(0x6627, 1));
  EXPECT_FALSE(kept_below(0x6628, 1));
}

TEST(Dropout, ThresholdRoundsToNearestAndScaleMakesUpForIt) {
  EXPECT_EQ(dropout_threshold({.dropout = 0.0}), 0u);
  EXPECT_EQ(dropout_threshold({.dropout = 0.1}), 6554u);   // 6553.6
  EXPECT_EQ(dropout_threshold({.dropout = 0.3}), 19661u);  // 19660.8
  EXPECT_EQ(dropout_keep_scale({.dropout = 0.0}), 1.0);
  EXPECT_EQ(dropout_keep_scale({.dropout = 0.5}), 2.0);
  EXPECT_EQ(dropout_keep_scale({.dropout = 0.1}), 65536.0 / 58982.0);
}

TEST(Dropout, KeepRateIsWithinFourSigma) {
  for (const double p : {0.05, 0.1, 0.5, 0.8}) {
    const Problem problem = {.num_heads_q = 2, .dropout = p, .seed = 1234567890123};
    constexpr std::int64_t kRows = 300, kCols = 500;
    double kept = 0.0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t col = 0; col < kCols; ++col) {
        kept += element_is_kept(problem, 0, 1, row, col) ? 1.0 : 0.0;
      }
    }
    const double n = static_cast<double>(kRows * kCols);
    const double sigma = std::sqrt(n * p * (1.0 - p));
    // The threshold is p rounded to 16 bits.
    EXPECT_NEAR(kept, n * (1.0 - dropout_threshold(problem) / 65536.0), 4.0 * sigma) << p;
  }
}

TEST(Dropout, BothHalvesOfTheSeedMatter) {
  const auto differences = [](std::uint64_t seed) {
    const Problem a = {.dropout = 0.5, .seed = 7}, b = {.dropout = 0.5, .seed = seed};
    int count = 0;
    for (std::int64_t col = 0; col < 256; ++col) {
      count += element_is_kept(a, 0, 0, 3, col) != element_is_kept(b, 0, 0, 3, col) ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(differences(7), 0);
  EXPECT_GT(differences(8), 64);
  EXPECT_GT(differences((std::uint64_t{1} << 32) + 7), 64);
}

}  // namespace
}  // namespace attnlab::reference
