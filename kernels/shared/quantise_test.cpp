// Compares the parts of the quantisation with what they are defined as: matrices written out, exact
// powers of two, and every slot of a group.
#include "kernels/shared/quantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace attnlab {
namespace {

TEST(Quantise, SlotsOfV) {
  const std::vector<i64> keys = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  for (i64 slot = 0; slot < 16; ++slot) {
    EXPECT_EQ(key_of_slot(slot), keys[static_cast<std::size_t>(slot)]) << slot;
    EXPECT_EQ(slot_of_key(key_of_slot(slot)), slot);
  }
}

TEST(Quantise, PackedEntriesOfVHaveRoomOfTheirOwn) {
  for (i64 first = 0; first < 300; ++first) {
    for (i64 keys = 0; keys < 300; ++keys) {
      const i64 begin = first_transposed_key(first, 3);
      const i64 next = first_transposed_key(first + keys, 4);
      ASSERT_GE(next - begin, round_up(keys, kScaleRows)) << first << " " << keys;
    }
  }
}

TEST(Quantise, ScaleMakesTheLargestTheLargestCode) {
  EXPECT_EQ(e4m3_scale(0.0f), 1.0f);
  EXPECT_EQ(e4m3_scale(448.0f), 1.0f);
  EXPECT_EQ(e4m3_scale(7.0f), 0x1p-6f);
  for (const float amax : {1e-45f, 1e-30f, 0.3f, 1.0f, 5.7f, 1e30f, 3e38f}) {
    const float multiplier = e4m3_multiplier(e4m3_scale(amax));
    ASSERT_TRUE(std::isfinite(multiplier)) << amax;
    if (amax < 1e-35f) continue;  // whose scale is the smallest normal number
    EXPECT_EQ(quantise(amax, multiplier), 0x7E) << amax;
    EXPECT_EQ(quantise(-amax, multiplier), 0xFE) << amax;
  }
}

TEST(Quantise, AmaxPassesOverNanAndHoldsInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(update_amax(2.0f, nan), 2.0f);
  EXPECT_EQ(update_amax(2.0f, -3.0f), 3.0f);
  EXPECT_EQ(update_amax(2.0f, 1.0f), 2.0f);
  const float amax = update_amax(2.0f, -kInfinity);
  EXPECT_EQ(amax, std::numeric_limits<float>::max());
  const float multiplier = e4m3_multiplier(e4m3_scale(amax));
  EXPECT_EQ(quantise(-kInfinity, multiplier), 0xFE);
  EXPECT_EQ(quantise(nan, multiplier), kNanE4m3);
  EXPECT_EQ(quantise(-nan, multiplier), kNanE4m3);
}

// Returns the Walsh-Hadamard matrix in natural order: (-1) to the number of bits i and j share.
double hadamard(i64 i, i64 j) {
  return std::popcount(static_cast<u64>(i & j)) % 2 == 0 ? 1.0 : -1.0;
}

// Takes a row of small integers with exact sums: the rotation is then its matrix, rounded once.
TEST(Quantise, RotationIsItsMatrix) {
  const PhiloxKey key = philox_key(11);
  for (const i64 head_dim : {1, 2, 16, 64, 80, 96, 112, 128, 192, 240, 256}) {
    std::vector<float> row(static_cast<std::size_t>(head_dim));
    for (i64 c = 0; c < head_dim; ++c) row[static_cast<std::size_t>(c)] = float(c * 7 % 13 - 6);
    std::vector<double> wanted(row.size(), 0.0);
    i64 blocks = 0;
    for (i64 begin = 0; begin < head_dim; ++blocks) {
      const i64 width = rotation_block(head_dim, begin);
      for (i64 i = 0; i < width; ++i) {
        for (i64 j = 0; j < width; ++j) {
          const i64 column = begin + j;
          const bool negative = changes_sign(rotation_signs(key, 3, column / 128), column);
          const double value = row[static_cast<std::size_t>(column)];
          wanted[static_cast<std::size_t>(begin + i)] +=
              hadamard(i, j) * (negative ? -value : value);
        }
      }
      for (i64 i = begin; i < begin + width; ++i) {
        double& sum = wanted[static_cast<std::size_t>(i)];
        sum = static_cast<float>(sum) * rotation_scale(width);
      }
      begin += width;
    }
    EXPECT_EQ(blocks, std::popcount(static_cast<u64>(head_dim)));
    rotate_row(row.data(), head_dim, key, 3);
    for (std::size_t c = 0; c < row.size(); ++c) {
      ASSERT_EQ(row[c], static_cast<float>(wanted[c])) << head_dim << " " << c;
    }
  }
}

TEST(Quantise, RotationScaleIsTheRootRounded) {
  for (const i64 width : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    EXPECT_EQ(rotation_scale(width), static_cast<float>(1.0 / std::sqrt(double(width)))) << width;
  }
}

TEST(Quantise, SignsDependOnSeedHeadAndColumn) {
  std::set<std::vector<u32>> seen;
  int negative = 0;
  for (u64 seed = 0; seed < 4; ++seed) {
    for (i64 head = 0; head < 4; ++head) {
      for (i64 part = 0; part < 2; ++part) {
        const PhiloxCounter signs = rotation_signs(philox_key(seed), head, part);
        seen.insert({signs.x, signs.y, signs.z, signs.w});
        for (i64 column = 0; column < 128; ++column) negative += changes_sign(signs, column);
      }
    }
  }
  EXPECT_EQ(seen.size(), 32u);
  EXPECT_NEAR(negative, 2048, 160);  // of 4096, five standard deviations
}

}  // namespace
}  // namespace attnlab
