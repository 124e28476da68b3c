// Grids of work items: what of a problem is handed to one worker (a block of threads on a GPU), and
// in which order.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// `blocks` of each of batch x heads slices: tiles, panels or pairs of tiles of rows or keys.
struct Grid {
  i64 batch = 1;
  i64 heads = 1;
  i64 blocks = 0;
  // Slices whose items take turns, block by block. With 1 the items of a slice follow one another
  // and share its tensors in the caches; with more the heavy items of all of them go first.
  i64 section = 1;
  // Under a causal mask the last query tiles see the most keys (and the first key tiles are seen by
  // the most queries): the heavy ones go first, so that the light ones fill the gaps at the end.
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

ATTNLAB_HD constexpr WorkItem work_item(const Grid& grid, i64 index) {
  const i64 section = index / (grid.section * grid.blocks);
  const i64 begin = section * grid.section;
  const i64 slices = min(grid.section, grid.batch * grid.heads - begin);
  const i64 within = index - begin * grid.blocks;
  const i64 slice = begin + within % slices;
  const i64 place = within / slices;
  return {.batch = slice / grid.heads,
          .head = slice % grid.heads,
          .block = grid.last_block_first ? grid.blocks - 1 - place : place};
}

}  // namespace attnlab
