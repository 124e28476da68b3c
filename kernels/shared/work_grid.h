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
  // The first section lacks this many. with_sections() sets both.
  i64 missing = 0;
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

template <class Grid>
ATTNLAB_HD constexpr i64 work_items(const Grid& grid) {
  return grid.batch * grid.heads * grid.blocks;
}

// Divides `all` slices of a grid into sections of `slices`, or one of all where those are fewer.
// Where sections do not divide them the first one is smaller: if the last one were, its heavy items
// would begin when few others are left to fill the gaps.
constexpr WorkGrid divided(WorkGrid grid, i64 all, i64 slices) {
  grid.section = max<i64>(1, min(slices, all));
  grid.missing = round_up(all, grid.section) - all;
  return grid;
}
constexpr WorkGrid with_sections(const WorkGrid& grid, i64 slices) {
  return divided(grid, grid.batch * grid.heads, slices);
}

// Section is where one of a grid's sections lies.
struct Section {
  u32 begin = 0;   // its first slice
  u32 slices = 0;  // how many it has
};

// Returns the section of item `index`, where each slice has `blocks` of them. A launch has less
// than 2^31 items, so all fits 32 bits, whose divisions a GPU does in a quarter of the time.
ATTNLAB_HD constexpr Section section_of(const WorkGrid& grid, u32 index, u32 blocks) {
  const u32 size = static_cast<u32>(grid.section), missing = static_cast<u32>(grid.missing);
  const u32 begin = (index + missing * blocks) / (size * blocks) * size;  // were the first whole
  return begin == 0 ? Section{0, size - missing} : Section{begin - missing, size};
}

// SectionedGrid's last section has a size of its own. Small sections before it keep what their
// slices share in the caches; a large one at the end leaves short items for the gaps. It is no
// WorkGrid to others, by which its items would be in another order.
class SectionedGrid : private WorkGrid {
 public:
  using WorkGrid::batch;
  using WorkGrid::blocks;
  using WorkGrid::heads;
  using WorkGrid::last_block_first;
  using WorkGrid::section;
  i64 last = 1;  // so many slices are in the last section

  constexpr SectionedGrid() = default;
  // Divides the slices of a grid into sections of `slices` and a last one of `last_slices`.
  constexpr SectionedGrid(const WorkGrid& grid, i64 slices, i64 last_slices) : WorkGrid(grid) {
    last = max<i64>(1, min(last_slices, batch * heads));
    static_cast<WorkGrid&>(*this) = divided(grid, batch * heads - last, slices);
  }

  friend ATTNLAB_HD constexpr Section section_of(const SectionedGrid& grid, u32 index, u32 blocks);
};

ATTNLAB_HD constexpr Section section_of(const SectionedGrid& grid, u32 index, u32 blocks) {
  const u32 last = static_cast<u32>(grid.last);
  const u32 others = static_cast<u32>(grid.batch * grid.heads) - last;
  if (index >= others * blocks) return {others, last};
  return section_of(static_cast<const WorkGrid&>(grid), index, blocks);
}

// SlicePlace says which slice (batch * heads + head) an item is of, and which of its items it is.
struct SlicePlace {
  u32 slice = 0;
  u32 place = 0;
};

// Returns the place of item `index`, by one division less than work_item() takes.
template <class Grid>
ATTNLAB_HD constexpr SlicePlace slice_place(const Grid& grid, u32 index) {
  const u32 blocks = static_cast<u32>(grid.blocks);
  const Section section = section_of(grid, index, blocks);
  const u32 within = index - section.begin * blocks;
  const u32 place = within / section.slices;
  return {section.begin + (within - place * section.slices), place};
}

template <class Grid>
ATTNLAB_HD constexpr WorkItem work_item(const Grid& grid, i64 index) {
  const u32 blocks = static_cast<u32>(grid.blocks), heads = static_cast<u32>(grid.heads);
  const auto [slice, place] = slice_place(grid, static_cast<u32>(index));
  return {.batch = slice / heads,
          .head = slice % heads,
          .block = grid.last_block_first ? blocks - 1 - place : place};
}

// Returns which item of a slice (batch * heads + head) comes first.
template <class Grid>
ATTNLAB_HD constexpr i64 first_item(const Grid& grid, i64 slice) {
  const i64 begin = section_of(grid, static_cast<u32>(slice), 1).begin;
  return begin * grid.blocks + (slice - begin);
}

}  // namespace attnlab
