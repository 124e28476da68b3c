#include "kernels/shared/warp_grid.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

// Tries every grid; of those that read least it takes the one with the most rows a warp.
WarpGrid searched(i32 warps, i32 rows, i32 columns) {
  WarpGrid best;
  i32 least = 0;
  for (i32 below = warps; below >= 1; --below) {
    for (i32 beside = 1; beside <= warps; ++beside) {
      if (below * beside != warps || rows % below != 0 || columns % beside != 0) continue;
      const i32 own_rows = rows / below, own_columns = columns / beside;
      if (own_rows % 16 != 0 || own_columns % 16 != 0) continue;
      if (best.rows != 0 && own_rows + own_columns > least) continue;
      best = {.rows = below, .columns = beside};
      least = own_rows + own_columns;
    }
  }
  return best;
}

TEST(WarpGrid, ReadsLeast) {
  for (i32 warps = 1; warps <= 16; ++warps) {
    for (i32 rows = 16; rows <= 256; rows += 16) {
      for (i32 columns = 16; columns <= 256; columns += 16) {
        const WarpGrid grid = warp_grid(warps, rows, columns);
        const WarpGrid want = searched(warps, rows, columns);
        EXPECT_EQ(grid.rows, want.rows) << warps << " warps over " << rows << "x" << columns;
        EXPECT_EQ(grid.columns, want.columns);
      }
    }
  }
}

TEST(WarpGrid, OfSomeTiles) {
  const auto expect = [](i32 warps, i32 rows, i32 columns, i32 below, i32 beside) {
    const WarpGrid grid = warp_grid(warps, rows, columns);
    EXPECT_EQ(grid.rows, below) << warps << " warps over " << rows << "x" << columns;
    EXPECT_EQ(grid.columns, beside);
  };
  expect(8, 128, 64, 4, 2);   // 32x32 each
  expect(8, 128, 128, 2, 4);  // 64x32 each
  expect(8, 64, 256, 1, 8);   // 64x32 each
  expect(4, 64, 64, 2, 2);
  expect(8, 32, 32, 0, 0);  // 4 fragments of 16x16
}

}  // namespace
}  // namespace attnlab
