#include "kernels/shared/warp_grid.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

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

}  // namespace
}  // namespace attnlab
