#include "kernels/shared/work_grid.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace attnlab {
namespace {

TEST(WorkGrid, ItemsOfASliceFollowOneAnother) {
  for (const bool last_first : {false, true}) {
    const WorkGrid grid = {.batch = 2, .heads = 3, .blocks = 5, .last_block_first = last_first};
    ASSERT_EQ(work_items(grid), 30);
    for (i64 index = 0; index < 30; ++index) {
      const WorkItem item = work_item(grid, index);
      const i64 place = last_first ? 4 - item.block : item.block;
      EXPECT_EQ((item.batch * 3 + item.head) * 5 + place, index);
    }
  }
}

TEST(WorkGrid, EveryBlockIsOneItemAndTheFirstBlocksOfASectionGoFirst) {
  for (const bool last_first : {false, true}) {
    for (const i64 section : {1, 2, 4, 6, 100}) {
      const WorkGrid grid = with_sections(
          {.batch = 2, .heads = 3, .blocks = 5, .last_block_first = last_first}, section);
      const i64 missing = (section - 6 % section) % section;
      std::set<std::tuple<i64, i64, i64>> seen;
      i64 last_section = 0, last_place = 0;
      for (i64 index = 0; index < work_items(grid); ++index) {
        const WorkItem item = work_item(grid, index);
        const i64 place = last_first ? grid.blocks - 1 - item.block : item.block;
        // Six slices: the first section has what others leave, like 2 where they have 4.
        const i64 in_section = (item.batch * grid.heads + item.head + missing) / section;
        if (in_section == last_section) {
          EXPECT_GE(place, last_place);
        } else {
          EXPECT_EQ(in_section, last_section + 1);
        }
        last_section = in_section;
        last_place = place;
        const SlicePlace of_slice = slice_place(grid, static_cast<u32>(index));
        EXPECT_EQ(of_slice.slice, item.batch * grid.heads + item.head);
        EXPECT_EQ(of_slice.place, place);
        seen.insert({item.batch, item.head, item.block});
      }
      EXPECT_EQ(seen.size(), 30u) << "section " << section;
    }
  }
}

// Sections of two: the first one has what others leave, and the last one its own size.
TEST(WorkGrid, TheLastSectionHasASizeOfItsOwn) {
  const auto slices = [](i64 section, i64 last) {
    const SectionedGrid grid({.batch = 3, .heads = 3, .blocks = 2}, section, last);
    std::vector<u32> of_items;
    std::set<std::pair<u32, u32>> seen;
    for (u32 index = 0; index < 18; ++index) {
      const SlicePlace place = slice_place(grid, index);
      of_items.push_back(place.slice);
      seen.insert({place.slice, place.place});
      const WorkItem item = work_item(grid, index);
      EXPECT_EQ(item.batch * 3 + item.head, place.slice);
      EXPECT_EQ(item.block, place.place);
      if (place.place == 0) {
        EXPECT_EQ(first_item(grid, place.slice), index);
      }
    }
    EXPECT_EQ(seen.size(), 18u);
    return of_items;
  };
  using Slices = std::vector<u32>;
  EXPECT_EQ(slices(2, 4), (Slices{0, 0, 1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8}));
  EXPECT_EQ(slices(1, 3), (Slices{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 6, 7, 8}));
  EXPECT_EQ(slices(5, 1), (Slices{0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 8, 8}));
  EXPECT_EQ(slices(1, 0), slices(1, 1));  // there is one
  const Slices all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(slices(2, 9), all);
  EXPECT_EQ(slices(0, 100), all);
}

TEST(WorkGrid, TheFirstItemOfASliceIsFound) {
  for (const i64 section : {1, 2, 4, 6, 100}) {
    const WorkGrid grid = with_sections({.batch = 2, .heads = 3, .blocks = 5}, section);
    std::map<i64, i64> first;
    for (i64 index = work_items(grid) - 1; index >= 0; --index) {
      const WorkItem item = work_item(grid, index);
      first[item.batch * grid.heads + item.head] = index;
    }
    for (const auto& [slice, index] : first) EXPECT_EQ(first_item(grid, slice), index);
    EXPECT_EQ(first.size(), 6u);
  }
}

}  // namespace
}  // namespace attnlab
