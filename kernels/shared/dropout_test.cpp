#include "kernels/shared/dropout.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace attnlab {
namespace {

using Element = std::pair<i64, i64>;  // row, col

TEST(Dropout, BlockUsesEveryNumberOfItsCountersOnce) {
  for (const auto& [row_block, col_block] : {Element{0, 0}, Element{3, 5}}) {
    std::set<std::pair<u32, u32>> used;  // counter.w, half
    for (i64 row = 16 * row_block; row < 16 * row_block + 16; ++row) {
      for (i64 col = 16 * col_block; col < 16 * col_block + 16; ++col) {
        const PhiloxCounter counter = dropout_counter(9, row, col);
        EXPECT_EQ(counter.x, static_cast<u32>(col_block));
        EXPECT_EQ(counter.y, static_cast<u32>(row_block));
        EXPECT_EQ(counter.z, 9u);
        EXPECT_LT(counter.w, 32u);
        EXPECT_LT(dropout_half(row, col), 8u);
        EXPECT_TRUE(used.insert({counter.w, dropout_half(row, col)}).second)
            << "row " << row << " col " << col;
      }
    }
    EXPECT_EQ(used.size(), 256u);
  }
}

// Lane 4 * (row % 8) + j holds these elements of two accumulator tiles of mma.m16n8k16.
TEST(Dropout, OneCounterServesTheEightElementsOfOneThread) {
  std::map<u32, std::map<u32, Element>> by_lane;  // counter.w -> half -> element
  for (i64 row = 0; row < 16; ++row) {
    for (i64 col = 0; col < 16; ++col) {
      by_lane[dropout_counter(0, row, col).w][dropout_half(row, col)] = {row, col};
    }
  }
  for (const auto& [lane, elements] : by_lane) {
    const i64 r = lane / 4, c = 2 * (lane % 4);
    const std::map<u32, Element> want = {
        {0, {r, c}},     {1, {r, c + 1}},     {2, {r + 8, c}},     {3, {r + 8, c + 1}},
        {4, {r, c + 8}}, {5, {r, c + 1 + 8}}, {6, {r + 8, c + 8}}, {7, {r + 8, c + 1 + 8}}};
    EXPECT_EQ(elements, want) << "lane " << lane;
  }
}

TEST(Dropout, HalvesAreTheWordsInOrderLowHalfFirst) {
  const PhiloxCounter words = {0x00010000, 0x00030002, 0x00050004, 0x00070006};
  for (u32 half = 0; half < 8; ++half) EXPECT_EQ(select_half(words, half), half);
}

TEST(Dropout, ElementIsDroppedIffItsNumberIsBelowTheThreshold) {
  Dropout dropout = {.key = philox_key(11)};
  for (i64 row = 30; row < 62; ++row) {
    for (i64 col = 5; col < 60; ++col) {
      const PhiloxCounter words = philox(dropout_counter(2, row, col), dropout.key);
      const u32 number = select_half(words, dropout_half(row, col));
      dropout.threshold = number;
      EXPECT_TRUE(is_kept(dropout, 2, row, col)) << "row " << row << " col " << col;
      dropout.threshold = number + 1;
      EXPECT_FALSE(is_kept(dropout, 2, row, col)) << "row " << row << " col " << col;
    }
  }
}

TEST(Dropout, ThresholdRoundsToNearestAndScaleUndoesIt) {
  const struct {
    double p;
    u32 threshold;
  } cases[] = {{0.0, 0},     {0.4 / 65536, 0},        {0.6 / 65536, 1}, {1.0 / 65536, 1},
               {0.1, 6554},   // 6553.6
               {0.2, 13107},  // 13107.2
               {0.5, 32768}, {65535.0 / 65536, 65535}};
  for (const auto& [p, threshold] : cases) {
    const Dropout dropout = make_dropout(p, 0);
    EXPECT_EQ(dropout.threshold, threshold) << p;
    const double kept = (65536.0 - threshold) / 65536.0;
    EXPECT_NEAR(dropout.keep_scale * kept, 1.0, 1e-7) << p;
  }
}

TEST(Dropout, KeepRateLiesWithinFourSigma) {
  for (double p : {0.01, 0.1, 0.17, 0.5, 0.9}) {
    const Dropout dropout = make_dropout(p, 20240607);
    constexpr i64 kRows = 300, kCols = 700;
    double kept = 0.0;
    for (i64 row = 0; row < kRows; ++row) {
      for (i64 col = 0; col < kCols; ++col) kept += is_kept(dropout, 3, row, col) ? 1.0 : 0.0;
    }
    const double n = kRows * kCols;
    EXPECT_NEAR(kept / n, 1.0 - p, 4.0 * std::sqrt(p * (1.0 - p) / n)) << p;
  }
}

TEST(Dropout, NothingIsDroppedAtZero) {
  const Dropout dropout = make_dropout(0.0, 5);
  EXPECT_EQ(dropout.keep_scale, 1.0f);
  for (i64 row = 0; row < 64; ++row) {
    for (i64 col = 0; col < 64; ++col) EXPECT_TRUE(is_kept(dropout, 0, row, col));
  }
}

TEST(Dropout, SlicesBlocksAndBothWordsOfTheSeedGiveDifferentMasks) {
  const auto mask = [](u64 seed, i64 slice, i64 first_row, i64 first_col) {
    std::array<bool, 256> kept{};
    for (i64 i = 0; i < 256; ++i) {
      kept[static_cast<std::size_t>(i)] =
          is_kept(make_dropout(0.5, seed), slice, first_row + i / 16, first_col + i % 16);
    }
    return kept;
  };
  const std::set<std::array<bool, 256>> masks = {
      mask(1, 0, 0, 0),  mask(2, 0, 0, 0),  mask(u64{1} << 32 | 1, 0, 0, 0),
      mask(1, 1, 0, 0),  mask(1, 0, 16, 0), mask(1, 0, 0, 16),
      mask(1, 0, 16, 16)};
  EXPECT_EQ(masks.size(), 7u);
  EXPECT_EQ(mask(1, 0, 0, 0), mask(1, 0, 0, 0));
}

}  // namespace
}  // namespace attnlab
