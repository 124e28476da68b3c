// Compares the online update and the merge with the softmax of a whole row in double.
#include "kernels/shared/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace attnlab {
namespace {

constexpr double kLog2EDouble = 1.4426950408889634;

// Row has scores in units of log2, and one value a key that stands for a column of V.
struct Row {
  std::vector<float> scores;  // -inf: masked
  std::vector<float> values;
};

struct Expected {
  double lse;
  double output;
};

Expected direct(const Row& row) {
  double largest = -INFINITY;
  for (float score : row.scores) largest = std::max(largest, static_cast<double>(score));
  if (std::isinf(largest)) return {-INFINITY, 0.0};
  double sum = 0.0, weighted = 0.0;
  for (std::size_t j = 0; j < row.scores.size(); ++j) {
    const double p = std::exp2(static_cast<double>(row.scores[j]) - largest);
    sum += p;
    weighted += p * static_cast<double>(row.values[j]);
  }
  return {largest / kLog2EDouble + std::log(sum), weighted / sum};
}

// Carried is a row as a kernel carries it: the state and a column of the unnormalised accumulator.
struct Carried {
  OnlineSoftmax state;
  float accumulator = 0.0f;
};

void add_tile(Carried& carried, std::span<const float> scores, std::span<const float> values) {
  float tile_max = -kInfinity;
  for (float score : scores) tile_max = max(tile_max, score);
  carried.accumulator *= raise_max(carried.state, tile_max);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const float p = exp2_f32(scores[j] - finite_max(carried.state.max));
    carried.state.sum += p;
    carried.accumulator += p * values[j];
  }
}

Carried merged(const Carried& a, const Carried& b) {
  const MergedSoftmax result = merge(a.state, b.state);
  return {result.state, a.accumulator * result.factor_a + b.accumulator * result.factor_b};
}

void expect_row(const Carried& carried, const Expected& want) {
  if (std::isinf(want.lse)) {
    EXPECT_EQ(lse(carried.state, Shape()), -kInfinity);
    EXPECT_EQ(final_scale(carried.state), 0.0f);
    EXPECT_EQ(carried.accumulator, 0.0f);
    return;
  }
  EXPECT_NEAR(lse(carried.state, Shape()), want.lse, 0x1p-19 * (1.0 + std::abs(want.lse)));
  EXPECT_NEAR(carried.accumulator * final_scale(carried.state), want.output, 0x1p-19);
}

// Draws scores up to +-`spread`, a share of them masked; values lie in [-1, 1].
Row random_row(std::mt19937& random, std::size_t keys, float spread, double masked_share) {
  std::uniform_real_distribution<float> score(-spread, spread), value(-1.0f, 1.0f);
  std::bernoulli_distribution masked(masked_share);
  Row row;
  for (std::size_t j = 0; j < keys; ++j) {
    row.scores.push_back(masked(random) ? -kInfinity : score(random));
    row.values.push_back(value(random));
  }
  return row;
}

// Draws borders 0 = b0 <= b1 <= ... = keys; equal borders are tiles without keys.
std::vector<std::size_t> random_split(std::mt19937& random, std::size_t keys, std::size_t tiles) {
  std::vector<std::size_t> borders = {0, keys};
  std::uniform_int_distribution<std::size_t> border(0, keys);
  for (std::size_t i = 1; i < tiles; ++i) borders.push_back(border(random));
  std::sort(borders.begin(), borders.end());
  return borders;
}

std::span<const float> tile(const std::vector<float>& row, std::size_t begin, std::size_t end) {
  return std::span(row).subspan(begin, end - begin);
}

TEST(Softmax, OnlineUpdateOverAnySplitEqualsTheWholeRow) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t keys = 1 + random() % 40;
    const float spread = trial % 3 == 0 ? 1.0f : trial % 3 == 1 ? 30.0f : 3000.0f;
    const Row row = random_row(random, keys, spread, 0.25 * (trial % 5));
    const auto borders = random_split(random, keys, 1 + random() % 8);
    Carried carried;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      add_tile(carried, tile(row.scores, borders[i], borders[i + 1]),
               tile(row.values, borders[i], borders[i + 1]));
    }
    expect_row(carried, direct(row));
    if (HasFailure()) FAIL() << "trial " << trial;
  }
}

TEST(Softmax, MergeInAnyOrderEqualsTheWholeRow) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t keys = 1 + random() % 40;
    const Row row = random_row(random, keys, trial % 2 == 0 ? 3.0f : 100.0f, 0.25 * (trial % 5));
    const auto borders = random_split(random, keys, 1 + random() % 8);
    std::vector<Carried> parts;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      add_tile(parts.emplace_back(), tile(row.scores, borders[i], borders[i + 1]),
               tile(row.values, borders[i], borders[i + 1]));
    }
    parts.emplace_back();       // a split that saw nothing
    while (parts.size() > 1) {  // any two, in either order, until one is left
      std::shuffle(parts.begin(), parts.end(), random);
      const Carried last = parts.back();
      parts.pop_back();
      parts.back() = merged(parts.back(), last);
    }
    expect_row(parts.front(), direct(row));
    if (HasFailure()) FAIL() << "trial " << trial;
  }
}

TEST(Softmax, RowThatSawNothingStaysFinite) {
  OnlineSoftmax state;
  EXPECT_EQ(lse(state, Shape()), -kInfinity);
  EXPECT_EQ(final_scale(state), 0.0f);
  EXPECT_EQ(raise_max(state, -kInfinity), 0.0f);  // a tile that is masked throughout
  EXPECT_EQ(state.max, -kInfinity);
  EXPECT_EQ(state.sum, 0.0f);
  const MergedSoftmax both = merge(state, OnlineSoftmax{});
  EXPECT_EQ(both.factor_a, 0.0f);
  EXPECT_EQ(both.factor_b, 0.0f);
  EXPECT_EQ(lse(both.state, Shape()), -kInfinity);
  EXPECT_EQ(final_scale(both.state), 0.0f);
}

TEST(Softmax, MergeWithAnEmptyStateChangesNothing) {
  const OnlineSoftmax state = {.max = 3.25f, .sum = 1.75f};
  for (const MergedSoftmax& result :
       {merge(state, OnlineSoftmax{}), merge(OnlineSoftmax{}, state)}) {
    EXPECT_EQ(result.state.max, state.max);
    EXPECT_EQ(result.state.sum, state.sum);
    EXPECT_EQ(result.factor_a + result.factor_b, 1.0f);
  }
}

TEST(Softmax, LseIsTheNaturalLogarithm) {
  // Scores are ln 2 and ln 6 in natural units: lse = ln 8.
  Carried carried;
  const std::vector<float> scores = {1.0f, static_cast<float>(std::log2(6.0))};
  add_tile(carried, scores, std::vector<float>{0.0f, 1.0f});
  EXPECT_NEAR(lse(carried.state, Shape()), std::log(8.0), 1e-6);
  EXPECT_NEAR(carried.accumulator * final_scale(carried.state), 0.75, 1e-6);
}

// At any size the largest score has an exponent that f16 holds as a P, the next smaller number has
// one that is no nearer than it should be, and lse is that of the score.
TEST(Softmax, LargeScoresKeepTheirOrderAndDistance) {
  Shape shape;
  shape.softmax_scale = 0.3f;
  shape.softmax_scale_log2 = static_cast<float>(0.3f * kLog2EDouble);
  const float scale = shape.softmax_scale_log2;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  for (int size = 0; size < 100; ++size) {
    for (const float sign : {1.0f, -1.0f}) {
      const float score = sign * std::ldexp(mantissa(random), size);
      const float below = std::nextafter(score, -kInfinity);
      const float row_max = scaled_max(score, scale);
      EXPECT_LE(std::abs(exponent(score, row_max, scale)), 8.0f) << score;
      EXPECT_LE(scaled_max(below, scale), row_max) << score;
      const double gap = static_cast<double>(score - below) * static_cast<double>(scale);
      const double got = exponent(score, row_max, scale) - exponent(below, row_max, scale);
      if (is_large(row_max)) {
        EXPECT_GE(gap, 16.0) << score;
        EXPECT_GE(got, gap) << score;
      } else {
        EXPECT_NEAR(got, gap, 1e-6 * (1.0 + gap)) << score;
      }
      const OnlineSoftmax state = {.max = row_max,
                                   .sum = exp2_f32(exponent(score, row_max, scale))};
      const double want = static_cast<double>(score) * 0.3f;
      EXPECT_NEAR(lse(state, shape), want, 0x1p-22 * (1.0 + std::abs(want))) << score;
    }
  }
}

}  // namespace
}  // namespace attnlab
