// v2: FlashAttention-2's work partitioning. Forward: one work item is one tile of query rows of one
// (batch, head) slice; it passes over the key tiles it sees and writes its rows of O and lse once.
// Backward: one work item is one tile of keys of one (batch, K/V head); it passes over the query
// tiles that see it, of every query head that shares the K/V head, and writes its rows of dK and dV
// once; what it owes to dQ it adds to fp32 sums in HBM. Source: Dao, FlashAttention-2 (2023),
// Algorithms 1 and 2, section 3.2.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/mask.h"

namespace attnlab::v2 {

// A grid of tiles: `blocks` of each of batch x heads slices.
struct Grid {
  i64 batch = 1;
  i64 heads = 1;
  i64 blocks = 0;
  // Under a causal mask the last query tiles see the most keys, and the first key tiles are seen by
  // the most queries: the heavy ones go first, so that the light ones fill the gaps at the end.
  bool last_block_first = false;
};

struct WorkItem {
  i64 batch = 0;
  i64 head = 0;
  i64 block = 0;
};

ATTNLAB_HD constexpr i64 work_items(const Grid& grid) {
  return grid.batch * grid.heads * grid.blocks;
}

// Items of one slice follow one another: they share its tensors in the caches.
ATTNLAB_HD constexpr WorkItem work_item(const Grid& grid, i64 index) {
  const i64 slice = index / grid.blocks;
  const i64 place = index % grid.blocks;
  return {.batch = slice / grid.heads,
          .head = slice % grid.heads,
          .block = grid.last_block_first ? grid.blocks - 1 - place : place};
}

}  // namespace attnlab::v2
