// Tests dropout on tiles: every instruction set drops exactly what is_kept() of shared/dropout.h
// does not keep.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/tile_ops.h"

namespace attnlab::cpu {
namespace {

class TileOpsDropoutTest : public testing::TestWithParam<const TileOps*> {};

INSTANTIATE_TEST_SUITE_P(Isa, TileOpsDropoutTest,
                         testing::ValuesIn(supported_tile_ops().begin(),
                                           supported_tile_ops().end()),
                         [](const auto& param) { return std::string(param.param->isa); });

// Runs `step` on a tile of twos, a whole vector wider and a line longer than it needs, and holds
// each of its elements to is_kept() and all others to what they were.
void expect_drops_as_defined(const TileOps& ops, Drop step) {
  constexpr float kBefore = 2.0f;
  const bool by_rows = step.orientation == Orientation::rows_by_keys;
  const Range lines = by_rows ? step.rows : step.keys;
  const Range along = by_rows ? step.keys : step.rows;
  step.ld = round_up(along.size(), kTileColumns) + kTileColumns;
  std::vector<float> tile(static_cast<std::size_t>((lines.size() + 1) * step.ld), kBefore);
  step.p = tile.data();
  ops.drop(step);
  for (i64 line = lines.begin; line < lines.end; ++line) {
    for (i64 column = along.begin; column < along.end; ++column) {
      const i64 row = by_rows ? line : column, key = by_rows ? column : line;
      const float dropped = step.action == DropAction::mark ? -kBefore : 0.0f;
      const float want = is_kept(step.dropout, step.slice, row, key) ? kBefore : dropped;
      const i64 place = (line - lines.begin) * step.ld + column - along.begin;
      ASSERT_EQ(tile[static_cast<std::size_t>(place)], want)
          << "row " << row << " key " << key << " of rows " << step.rows.begin << ".."
          << step.rows.end << " keys " << step.keys.begin << ".." << step.keys.end
          << (by_rows ? " rows_by_keys" : " keys_by_rows") << " threshold "
          << step.dropout.threshold;
    }
    const auto end = tile.begin() + (line - lines.begin + 1) * step.ld;
    ASSERT_EQ(std::count(end - kTileColumns, end, kBefore), kTileColumns) << "line " << line;
  }
  ASSERT_EQ(std::count(tile.end() - step.ld, tile.end(), kBefore), step.ld) << "next line";
}

TEST_P(TileOpsDropoutTest, DropsAndMarksAsDefinedAnywhere) {
  std::mt19937 random(7);
  const auto below = [&](i64 n) { return static_cast<i64>(random() % static_cast<u32>(n)); };
  for (const Orientation orientation : {Orientation::rows_by_keys, Orientation::keys_by_rows}) {
    for (const DropAction action : {DropAction::clear, DropAction::mark}) {
      for (int i = 0; i < 60; ++i) {
        const i64 row = below(100), key = below(100);
        const Range rows = {row, row + 1 + below(40)}, keys = {key, key + 1 + below(40)};
        const u64 seed = (static_cast<u64>(random()) << 32) | random();
        expect_drops_as_defined(
            *GetParam(), {.dropout = make_dropout(static_cast<double>(below(1000)) / 1000.0, seed),
                          .slice = below(100),
                          .rows = rows,
                          .keys = keys,
                          .orientation = orientation,
                          .action = action});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(TileOpsDropoutTest, DropsAlongLinesOfManyStrips) {
  for (const i64 begin : {0L, 5L, 250L}) {
    const Range lines = {3, 6}, along = {begin, begin + 777};
    Drop step = {.dropout = make_dropout(0.3, 11), .rows = lines, .keys = along};
    expect_drops_as_defined(*GetParam(), step);
    step.rows = along;
    step.keys = lines;
    step.orientation = Orientation::keys_by_rows;
    expect_drops_as_defined(*GetParam(), step);
  }
}

TEST_P(TileOpsDropoutTest, ExtremeThresholdsAndLargePositions) {
  for (const u32 threshold : {0u, 1u, 0x8000u, 0xFFFFu}) {
    for (const Orientation orientation : {Orientation::rows_by_keys, Orientation::keys_by_rows}) {
      Dropout dropout = make_dropout(0.5, ~u64{0});
      dropout.threshold = threshold;
      expect_drops_as_defined(*GetParam(), {.dropout = dropout,
                                            .slice = 0x7FFFFFFF,
                                            .rows = {(1L << 35) + 5, (1L << 35) + 90},
                                            .keys = {(1L << 35) - 40, (1L << 35) + 40},
                                            .orientation = orientation});
    }
  }
}

// A mark that is there already stays, and a P of 0 can be marked: the sign bit is set, not
// flipped.
TEST_P(TileOpsDropoutTest, MarkingSetsTheSignBit) {
  std::vector<float> p(16 * 16, 0.0f);
  const Drop step = {.dropout = make_dropout(0.5, 3),
                     .rows = {0, 16},
                     .keys = {0, 16},
                     .action = DropAction::mark,
                     .p = p.data(),
                     .ld = 16};
  GetParam()->drop(step);
  GetParam()->drop(step);
  for (i64 i = 0; i < 256; ++i) {
    const u32 bits = bit_cast<u32>(p[static_cast<std::size_t>(i)]);
    EXPECT_EQ(bits, is_kept(step.dropout, 0, i / 16, i % 16) ? 0u : 0x80000000u) << i;
  }
}

}  // namespace
}  // namespace attnlab::cpu
