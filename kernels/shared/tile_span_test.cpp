// Compares spans of tiles with their definition.
#include "kernels/shared/tile_span.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/shared/layout.h"
#include "kernels/shared/tile_entries.h"

namespace attnlab {
namespace {

// Checks all masks of windows and padding over a few rows and keys.
template <class Check>
void for_masks(const Check& check) {
  for (const i64 seqlen_q : {1, 5, 9, 12}) {
    for (const i64 seqlen_k : {1, 6, 9, 13}) {
      for (i64 valid_k = 0; valid_k <= seqlen_k; ++valid_k) {
        for (i64 left = -1; left <= 6; ++left) {
          for (i64 right = -1; right <= 6; ++right) {
            check(Mask{.seqlen_q = seqlen_q,
                       .seqlen_k = seqlen_k,
                       .left = left,
                       .right = right,
                       .valid_k = valid_k});
          }
        }
      }
    }
  }
}

constexpr Tiling kTiling = {.block_m = 4, .block_n = 3};

TEST(TileSpan, OfKeysHasTheClassesOfTheMask) {
  for_masks([](const Mask& mask) {
    for (i64 m_block = 0; m_block < kTiling.m_blocks(mask.seqlen_q); ++m_block) {
      const Range rows = tile_range(m_block, kTiling.block_m, mask.seqlen_q);
      const TileSpan span = make_span(n_block_range(mask, rows, kTiling.block_n),
                                      full_n_block_range(mask, rows, kTiling.block_n), nullptr);
      for (i32 n_block = 0; n_block < kTiling.n_blocks(mask.seqlen_k); ++n_block) {
        const TileClass want =
            classify(mask, rows, {n_block * kTiling.block_n, (n_block + 1) * kTiling.block_n});
        const bool inside = n_block >= span.begin && n_block < span.end;
        ASSERT_EQ(inside, want != TileClass::empty);
        if (inside) {
          ASSERT_EQ(span.is_partial(n_block), want == TileClass::partial);
          const i32 run_end = span.run_end(n_block);
          ASSERT_GT(run_end, n_block);
          ASSERT_LE(run_end, span.end);
          for (i32 other = n_block; other < run_end; ++other) {
            ASSERT_EQ(span.is_partial(other), span.is_partial(n_block));
          }
        }
      }
    }
  });
}

// A last tile with rows that do not exist counts as partial: they must see nothing.
TEST(TileSpan, OfRowsHasTheClassesOfTheMask) {
  for_masks([](const Mask& mask) {
    for (i64 n_block = 0; n_block < kTiling.n_blocks(mask.seqlen_k); ++n_block) {
      const Range keys = tile_range(n_block, kTiling.block_n, mask.seqlen_k);
      const bool all_exist = (n_block + 1) * kTiling.block_n <= mask.valid_k;
      const TileSpan span =
          make_span(m_block_range(mask, keys, kTiling.block_m),
                    all_exist ? full_m_block_range(mask, keys, kTiling.block_m) : Range{}, nullptr);
      for (i32 m_block = 0; m_block < kTiling.m_blocks(mask.seqlen_q); ++m_block) {
        const Range rows = tile_range(m_block, kTiling.block_m, mask.seqlen_q);
        const TileClass want =
            classify(mask, rows, {n_block * kTiling.block_n, (n_block + 1) * kTiling.block_n});
        const bool inside = m_block >= span.begin && m_block < span.end;
        ASSERT_EQ(inside, want != TileClass::empty);
        const bool is_whole = rows.size() == kTiling.block_m;
        if (inside) {
          ASSERT_EQ(span.is_partial(m_block), want == TileClass::partial || !is_whole);
        }
      }
    }
  });
}

TEST(TileSpan, EmptyTilesOfAPatternAreSkipped) {
  const std::vector<TileClass> classes = {TileClass::empty, TileClass::partial, TileClass::empty,
                                          TileClass::empty, TileClass::full,    TileClass::empty};
  const auto entries = entries_of<std::vector<TileEntry>>(classes);
  const TileSpan span = make_span({0, 6}, {}, entries.data());
  EXPECT_EQ(span.begin, 1);
  EXPECT_TRUE(span.is_partial(1));
  EXPECT_EQ(span.not_empty(2), 4);
  EXPECT_FALSE(span.is_partial(4));
  EXPECT_EQ(span.not_empty(5), 6);
  EXPECT_EQ(span.not_empty(0, 2), 4);  // of 0, 2 and 4
  EXPECT_EQ(span.not_empty(1, 2), 1);
  EXPECT_GE(span.not_empty(3, 2), 6);
}

// The distance is more than an entry can say: the way goes by tiles in between.
TEST(TileSpan, FarTilesAreFound) {
  std::vector<TileClass> classes(1000, TileClass::empty);
  classes[3] = TileClass::full;
  classes[997] = TileClass::partial;
  const auto entries = entries_of<std::vector<TileEntry>>(classes);
  const TileSpan span = make_span({0, 1000}, {}, entries.data());
  EXPECT_EQ(span.begin, 3);
  EXPECT_EQ(span.not_empty(4), 997);
  EXPECT_EQ(span.not_empty(5, 4), 997);
  EXPECT_GE(span.not_empty(4, 4), 1000);
  EXPECT_GE(span.not_empty(998), 1000);
}

}  // namespace
}  // namespace attnlab
