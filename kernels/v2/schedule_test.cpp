// What v2's kernels on a GPU take from the schedule: spans of tiles against their definition, grids
// of warps, maps of shared memory.
#include "kernels/v2/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace attnlab::v2 {
namespace {

// All masks of windows and padding over a few rows and keys.
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
  const TileSpan span = make_span({0, 6}, {}, classes.data());
  EXPECT_EQ(span.begin, 1);
  EXPECT_TRUE(span.is_partial(1));
  EXPECT_EQ(span.not_empty(2), 4);
  EXPECT_FALSE(span.is_partial(4));
  EXPECT_EQ(span.not_empty(5), 6);
}

TEST(WarpGrid, ReadsLeast) {
  const auto expect = [](i32 warps, i32 rows, i32 columns, i32 below, i32 beside) {
    const WarpGrid grid = warp_grid(warps, rows, columns);
    EXPECT_EQ(grid.rows, below) << warps << " warps over " << rows << "x" << columns;
    EXPECT_EQ(grid.columns, beside);
  };
  expect(8, 128, 64, 4, 2);   // 32x32 each
  expect(8, 128, 128, 2, 4);  // 64x32 each
  expect(8, 64, 256, 1, 8);   // 64x32 each
  expect(4, 64, 64, 2, 2);
  expect(8, 32, 32, 0, 0);  // 4 pieces of 16x16
}

TEST(SharedMemory, PartsFollowOneAnother) {
  const ForwardConfig forward = {.head_dim = 64, .block_m = 128, .block_n = 64, .stages = 2};
  const ForwardTiles tiles = forward_tiles(forward);
  constexpr i32 kTile = 64 * 64 * 2;
  EXPECT_EQ(tiles.k_tile(0), 2 * kTile);
  EXPECT_EQ(tiles.v_tile(0), 3 * kTile);
  EXPECT_EQ(tiles.k_tile(1), 4 * kTile);
  EXPECT_EQ(tiles.block(), 6 * kTile);
  EXPECT_EQ(tiles.bytes(), 6 * kTile + static_cast<i32>(sizeof(ForwardBlock)));

  const BackwardConfig backward = {.head_dim = 64, .block_m = 64, .block_n = 128, .stages = 2};
  const BackwardTiles parts = backward_tiles(backward);
  EXPECT_EQ(parts.v(), 2 * kTile);
  EXPECT_EQ(parts.q_of(0), 4 * kTile);
  EXPECT_EQ(parts.dout_of(1), 7 * kTile);
  EXPECT_EQ(parts.ds(), 8 * kTile);
  EXPECT_EQ(parts.p_shared(), 10 * kTile);
  EXPECT_EQ(parts.lse_of(0), 12 * kTile);
  EXPECT_EQ(parts.delta_of(0), 12 * kTile + 64 * 4);
  EXPECT_EQ(parts.lse_of(1), 12 * kTile + 2 * 64 * 4);
  EXPECT_EQ(parts.block(), 12 * kTile + 4 * 64 * 4);
}

}  // namespace
}  // namespace attnlab::v2
