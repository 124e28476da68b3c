#include "kernels/shared/layout.h"

#include <gtest/gtest.h>

#include <set>

namespace attnlab {
namespace {

TEST(Layout, IntegerHelpersRoundUp) {
  for (i64 b = 1; b <= 20; ++b) {
    for (i64 a = 0; a <= 100; ++a) {
      const i64 quotient = ceil_div(a, b);
      EXPECT_GE(quotient * b, a);
      EXPECT_LT((quotient - 1) * b, a);
      EXPECT_EQ(round_up(a, b), quotient * b);
    }
  }
}

TEST(Layout, RangesIntersect) {
  EXPECT_EQ(intersect({2, 8}, {5, 12}), (Range{5, 8}));
  EXPECT_TRUE(intersect({2, 5}, {5, 12}).empty());
  EXPECT_EQ(intersect({0, 3}, {5, 12}).size(), 0);
  EXPECT_EQ((Range{3, 7}.size()), 4);
}

TEST(Layout, StridesFollowTheirLayout) {
  constexpr i64 kBatch = 2, kHeads = 3, kSeqlen = 5, kDim = 4;
  const Strides bshd = strides_bshd(kSeqlen, kHeads, kDim);
  const Strides bhsd = strides_bhsd(kSeqlen, kHeads, kDim);
  const Strides packed = strides_packed(kHeads, kDim);
  for (i64 b = 0; b < kBatch; ++b) {
    for (i64 h = 0; h < kHeads; ++h) {
      for (i64 r = 0; r < kSeqlen; ++r) {
        EXPECT_EQ(bshd.offset(b, h, r), ((b * kSeqlen + r) * kHeads + h) * kDim);
        EXPECT_EQ(bhsd.offset(b, h, r), ((b * kHeads + h) * kSeqlen + r) * kDim);
        // The row index of a packed tensor runs over all entries.
        EXPECT_EQ(packed.offset(b, h, b * kSeqlen + r), bshd.offset(b, h, r));
      }
    }
  }
}

TEST(Layout, TilesCoverTheMatrixOnce) {
  for (i32 block = 1; block <= 20; ++block) {
    const Tiling tiling = {.block_m = block, .block_n = block + 3};
    for (i64 seqlen = 1; seqlen <= 70; ++seqlen) {
      const i64 m_blocks = tiling.m_blocks(seqlen), n_blocks = tiling.n_blocks(seqlen);
      EXPECT_GE(m_blocks * tiling.block_m, seqlen);
      EXPECT_LT((m_blocks - 1) * tiling.block_m, seqlen);
      EXPECT_GE(n_blocks * tiling.block_n, seqlen);
      EXPECT_LT((n_blocks - 1) * tiling.block_n, seqlen);
    }
  }
}

template <class Width>
class Swizzle : public testing::Test {};
template <i32 kBytes>
struct Width {
  static constexpr i32 kValue = kBytes;
};
using Modes = testing::Types<Width<32>, Width<64>, Width<128>>;
TYPED_TEST_SUITE(Swizzle, Modes);

TYPED_TEST(Swizzle, IsAnInvolutionInsideItsAtomThatKeepsChunks) {
  constexpr u32 kRow = TypeParam::kValue;
  constexpr u32 kAtom = 8 * kRow;
  std::set<u32> places;
  for (u32 offset = 0; offset < 4 * kAtom; ++offset) {
    const u32 place = swizzle<TypeParam::kValue>(offset);
    EXPECT_EQ(place / kAtom, offset / kAtom) << offset;
    EXPECT_EQ(place / kRow, offset / kRow) << offset;  // rows stay rows
    EXPECT_EQ(place % 16, offset % 16) << offset;
    EXPECT_EQ(swizzle<TypeParam::kValue>(place), offset);
    EXPECT_TRUE(places.insert(place).second) << offset;
  }
}

// 32 banks of 4 bytes: eight 16-byte accesses are free of conflicts iff they land in eight
// different 16-byte groups of a 128-byte line. That is what ldmatrix does with eight rows of one
// column.
TYPED_TEST(Swizzle, EightRowsOfOneColumnTouchEveryBankOnce) {
  constexpr u32 kRow = TypeParam::kValue;
  for (u32 first_row = 0; first_row < 32; first_row += 8) {
    for (u32 chunk = 0; chunk < kRow / 16; ++chunk) {
      std::set<u32> groups;
      for (u32 row = first_row; row < first_row + 8; ++row) {
        groups.insert(swizzle<TypeParam::kValue>(row * kRow + chunk * 16) / 16 % 8);
      }
      EXPECT_EQ(groups.size(), 8u) << "rows from " << first_row << ", chunk " << chunk;
    }
  }
}

}  // namespace
}  // namespace attnlab
