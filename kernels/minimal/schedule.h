// minimal: a block of 32 workers owns 32 query rows of one (batch, head) slice, one row each, and
// passes over all keys in tiles of 32. Per slice of n rows and m keys it reads n d + 2 ceil(n / 32)
// m d elements and writes n d + n: each block reads all of K and V.
#pragma once

#include "kernels/shared/layout.h"

namespace attnlab::minimal {

constexpr i32 kBlock = 32;  // workers of a block (= query rows), and keys of a tile
constexpr Tiling kTiling = {.block_m = kBlock, .block_n = kBlock};

struct Grid {
  i64 batch = 1;
  i64 heads = 1;
  i64 blocks = 0;  // of a slice
};

struct WorkItem {
  i64 batch = 0;
  i64 head = 0;
  i64 block = 0;
};

ATTNLAB_HD constexpr i64 work_items(const Grid& grid) {
  return grid.batch * grid.heads * grid.blocks;
}

ATTNLAB_HD constexpr WorkItem work_item(const Grid& grid, i64 index) {
  const i64 slice = index / grid.blocks;
  return {.batch = slice / grid.heads, .head = slice % grid.heads, .block = index % grid.blocks};
}

// Rows of a block or keys of a tile, cut off at the end of the sequence.
ATTNLAB_HD constexpr Range block_range(i64 block, i64 seqlen) {
  return {block * kBlock, min((block + 1) * kBlock, seqlen)};
}

}  // namespace attnlab::minimal
