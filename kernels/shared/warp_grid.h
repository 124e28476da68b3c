// Divides a product among the warps of a thread block.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// WarpGrid says how warps divide a matrix among themselves.
struct WarpGrid {
  i32 rows = 0;  // warps one below the other
  i32 columns = 0;
};

// Returns the grid of warps over rows x columns that reads least from shared memory ({0, 0} if none
// fits): a warp reads its rows of A and columns of B for each step of 16. It has whole multiples of
// 16 of both; of equal grids it takes that with more rows a warp, which reads B less often.
ATTNLAB_HD constexpr WarpGrid warp_grid(i32 warps, i32 rows, i32 columns) {
  WarpGrid best;
  i32 least = 0;
  for (i32 below = 1; below <= warps; ++below) {
    const i32 beside = warps / below;
    if (below * beside != warps || rows % (16 * below) != 0 || columns % (16 * beside) != 0)
      continue;
    const i32 read = rows / below + columns / beside;
    if (best.rows == 0 || read < least) {
      best = {.rows = below, .columns = beside};
      least = read;
    }
  }
  return best;
}

}  // namespace attnlab
