// Defines grids of work items: what of a problem is handed to one worker (a block of threads on a
// GPU), and in which order.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// WorkGrid has `blocks` of each of batch x heads slices: tiles, panels or pairs of tiles.
struct WorkGrid {
  i64 batch = 1;
  i64 heads = 1;
  i64 blocks = 0;
  // This many slices make a section, whose items are interleaved: one block of each slice, then the
  // next of each, and so on. With 1 the items of a slice follow one another and share its tensors
  // in the caches; with more the heavy items of all of them go first.
  i64 section = 1;
  // Under a causal mask the last query tiles see the most keys (and the first key tiles are seen by
  // the most queries): the heavy ones go first, so that the light ones fill the gaps at the end.
  bool last_block_first = false;
};

// Returns WorkGrid::section: how many slices have their items interleaved, so that under a causal
// mask the long ones of all go first and the short ones fill the gaps at the end. They are as many
// as stay together in `cache_bytes` of a cache, from which their tensors are read again and again,
// in whole groups of `share` heads, which read the same `shared_bytes`.
ATTNLAB_HD constexpr i64 section_size(i64 cache_bytes, i64 shared_bytes, i64 share) {
  return max<i64>(1, cache_bytes / shared_bytes) * share;
}

struct WorkItem {
  i64 batch = 0;
  i64 head = 0;
  i64 block = 0;
};

ATTNLAB_HD constexpr i64 work_items(const WorkGrid& grid) {
  return grid.batch * grid.heads * grid.blocks;
}

// A launch has less than 2^31 items, so all fits 32 bits, whose divisions a GPU does in a quarter
// of the time.
ATTNLAB_HD constexpr WorkItem work_item(const WorkGrid& grid, i64 index) {
  const u32 blocks = static_cast<u32>(grid.blocks), heads = static_cast<u32>(grid.heads);
  const u32 all_slices = static_cast<u32>(grid.batch) * heads;
  const u32 section_slices = static_cast<u32>(grid.section);
  const u32 begin = static_cast<u32>(index) / (section_slices * blocks) * section_slices;
  const u32 slices = min(section_slices, all_slices - begin);
  const u32 within = static_cast<u32>(index) - begin * blocks;
  const u32 place = within / slices;
  const u32 slice = begin + (within - place * slices);
  return {.batch = slice / heads,
          .head = slice % heads,
          .block = grid.last_block_first ? blocks - 1 - place : place};
}

// Returns which item of a slice (batch * heads + head) comes first.
ATTNLAB_HD constexpr i64 first_item(const WorkGrid& grid, i64 slice) {
  const i64 begin = slice / grid.section * grid.section;
  return begin * grid.blocks + (slice - begin);
}

}  // namespace attnlab
