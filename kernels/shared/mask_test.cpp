// Compares the mask functions with the definition in kernels/shared/mask.h, written a second time
// as a double loop, exhaustively at small sizes.
#include "kernels/shared/mask.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/shared/layout.h"

namespace attnlab {
namespace {

constexpr i64 kLargest = 64;  // a row of the visibility matrix is one 64-bit word

bool defined_visible(const Mask& mask, i64 r, i64 c) {
  const i64 distance = c - (r + mask.seqlen_k - mask.seqlen_q);
  if (mask.left >= 0 && distance < -mask.left) return false;
  if (mask.right >= 0 && distance > mask.right) return false;
  if (c >= mask.valid_k) return false;
  if (mask.blocks.visible == nullptr) return true;
  const i64 block = r / mask.blocks.block_q * mask.blocks.blocks_k + c / mask.blocks.block_k;
  return mask.blocks.visible[block] != 0;
}

// Sets bit c of row r if key c is visible to row r.
std::vector<std::uint64_t> visibility(const Mask& mask) {
  std::vector<std::uint64_t> rows(static_cast<std::size_t>(mask.seqlen_q));
  for (i64 r = 0; r < mask.seqlen_q; ++r) {
    std::uint64_t row = 0;
    for (i64 c = 0; c < mask.seqlen_k; ++c) {
      row |= std::uint64_t{defined_visible(mask, r, c)} << c;
    }
    rows[static_cast<std::size_t>(r)] = row;
  }
  return rows;
}

std::uint64_t bits(Range range) {
  const auto below = [](i64 end) { return end >= 64 ? ~0ull : (1ull << end) - 1; };
  return range.empty() ? 0 : below(range.end) & ~below(range.begin);
}

std::string describe(const Mask& mask) {
  std::ostringstream text;
  text << "seqlen_q " << mask.seqlen_q << " seqlen_k " << mask.seqlen_k << " window " << mask.left
       << ":" << mask.right << " valid_k " << mask.valid_k;
  if (mask.blocks.visible != nullptr) {
    text << " blocks " << mask.blocks.block_q << "x" << mask.blocks.block_k;
  }
  return text.str();
}

// Each check returns what it found wrong, or nothing: the loops run millions of times, too often
// for an assertion macro each.
std::string wrong_rows(const Mask& mask, const std::vector<std::uint64_t>& visible) {
  for (i64 r = 0; r < mask.seqlen_q; ++r) {
    const std::uint64_t want = visible[static_cast<std::size_t>(r)];
    const auto wrong = [r](const char* what) { return what + (" of row " + std::to_string(r)); };
    std::uint64_t got = 0;
    for (i64 c = 0; c < mask.seqlen_k; ++c) got |= std::uint64_t{is_visible(mask, r, c)} << c;
    if (got != want) return wrong("is_visible");
    if (visible_keys(mask, r) != __builtin_popcountll(want)) return wrong("visible_keys");
    const std::uint64_t in_band = bits(band(mask, r));
    const bool band_fits = mask.blocks.visible == nullptr ? in_band == want : !(want & ~in_band);
    if (!band_fits) return wrong("band");
  }
  return "";
}

std::string wrong_columns(const Mask& mask, const std::vector<std::uint64_t>& visible) {
  for (i64 c = 0; c < mask.seqlen_k; ++c) {
    std::uint64_t want = 0;
    for (i64 r = 0; r < mask.seqlen_q; ++r) {
      want |= (visible[static_cast<std::size_t>(r)] >> c & 1) << r;
    }
    const std::uint64_t in_band = bits(band_rows(mask, c));
    const bool band_fits = mask.blocks.visible == nullptr ? in_band == want : !(want & ~in_band);
    if (!band_fits) return "band_rows of column " + std::to_string(c);
  }
  return "";
}

std::string wrong_tiles(const Mask& mask, const std::vector<std::uint64_t>& visible,
                        const Tiling& tiling) {
  std::uint64_t seen_by[kLargest] = {};  // bit m of n: tile (m, n) is not empty
  for (i64 m = 0; m < tiling.m_blocks(mask.seqlen_q); ++m) {
    const Range rows =
        intersect({m * tiling.block_m, (m + 1) * tiling.block_m}, {0, mask.seqlen_q});
    std::uint64_t any_row = 0, every_row = ~0ull;
    for (i64 r = rows.begin; r < rows.end; ++r) {
      any_row |= visible[static_cast<std::size_t>(r)];
      every_row &= visible[static_cast<std::size_t>(r)];
    }
    Range non_empty;  // the n_blocks from the first to the last that is not empty
    for (i64 n = 0; n < tiling.n_blocks(mask.seqlen_k); ++n) {
      const Range keys = {n * tiling.block_n, (n + 1) * tiling.block_n};
      const bool exists = keys.end <= mask.seqlen_k;
      const TileClass want = (any_row & bits(keys)) == 0            ? TileClass::empty
                             : exists && !(bits(keys) & ~every_row) ? TileClass::full
                                                                    : TileClass::partial;
      if (classify(mask, rows, keys) != want) {
        return "class of tile " + std::to_string(m) + ", " + std::to_string(n);
      }
      if (want != TileClass::empty) {
        non_empty = {non_empty.empty() ? n : non_empty.begin, n + 1};
        seen_by[n] |= 1ull << m;
      }
    }
    const Range got = n_block_range(mask, rows, tiling.block_n);
    const bool tight = got == non_empty || (got.empty() && non_empty.empty());
    const bool covers = non_empty.empty() || intersect(got, non_empty) == non_empty;
    if (!(mask.blocks.visible == nullptr ? tight : covers)) {
      return "n_block_range of m_block " + std::to_string(m);
    }
    for (i64 from = 0; from <= tiling.n_blocks(mask.seqlen_k); ++from) {
      i64 want = from;  // the first that is not empty, or past all of them
      while (want < non_empty.end && (seen_by[want] >> m & 1) == 0) ++want;
      const i64 next = next_n_block(mask, rows, tiling.block_n, from);
      if (want < non_empty.end ? next != want : next < max(want, got.end)) {
        return "next_n_block of m_block " + std::to_string(m) + " from " + std::to_string(from);
      }
      i64 want_before = std::min(from, non_empty.end - 1);  // the last that is not empty, or none
      while (want_before >= non_empty.begin && (seen_by[want_before] >> m & 1) == 0) --want_before;
      const i64 before = previous_n_block(mask, rows, tiling.block_n, from);
      if (want_before >= non_empty.begin ? before != want_before : before >= got.begin) {
        return "previous_n_block of m_block " + std::to_string(m) + " from " + std::to_string(from);
      }
    }
  }
  for (i64 n = 0; n < tiling.n_blocks(mask.seqlen_k); ++n) {
    const Range got =
        m_block_range(mask, {n * tiling.block_n, (n + 1) * tiling.block_n}, tiling.block_m);
    const bool fits = (mask.blocks.visible == nullptr && seen_by[n] != 0)
                          ? bits(got) == seen_by[n]
                          : (seen_by[n] & ~bits(got)) == 0;
    const bool none = mask.blocks.visible != nullptr || seen_by[n] != 0 || got.empty();
    if (!fits || !none) return "m_block_range of n_block " + std::to_string(n);
  }
  return "";
}

bool holds(const Mask& mask, const std::vector<Tiling>& tilings) {
  const std::vector<std::uint64_t> visible = visibility(mask);
  for (const std::string& wrong : {wrong_rows(mask, visible), wrong_columns(mask, visible)}) {
    if (!wrong.empty()) {
      ADD_FAILURE() << wrong << ": " << describe(mask);
      return false;
    }
  }
  for (const Tiling& tiling : tilings) {
    if (const std::string wrong = wrong_tiles(mask, visible, tiling); !wrong.empty()) {
      ADD_FAILURE() << wrong << " of " << tiling.block_m << "x" << tiling.block_n << ": "
                    << describe(mask);
      return false;
    }
  }
  return true;
}

// Each band of seqlen_q is a test of its own, so that they can run side by side.
class MaskWindows : public testing::TestWithParam<i64> {};

TEST_P(MaskWindows, HoldExhaustively) {
  const std::vector<Tiling> tilings = {{3, 5}, {8, 8}, {16, 7}, {5, 16}, {64, 64}};
  for (i64 seqlen_q = GetParam(); seqlen_q < GetParam() + 10; ++seqlen_q) {
    for (i64 seqlen_k = 1; seqlen_k <= 40; ++seqlen_k) {
      for (i64 left = -1; left <= 41; ++left) {
        for (i64 right = -1; right <= 41; ++right) {
          const Mask mask = {.seqlen_q = seqlen_q,
                             .seqlen_k = seqlen_k,
                             .left = left,
                             .right = right,
                             .valid_k = seqlen_k};
          if (!holds(mask, tilings)) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SeqlenQ, MaskWindows, testing::Values(1, 11, 21, 31));

TEST(Mask, PaddingOfEveryLengthHoldsExhaustively) {
  constexpr i64 kSeqlen = 10;
  const std::vector<Tiling> tilings = {{1, 1}, {1, 3}, {4, 1}, {3, 5}, {2, 4}, {8, 8}, {16, 7}};
  for (i64 seqlen_q = 1; seqlen_q <= kSeqlen; ++seqlen_q) {
    for (i64 seqlen_k = 1; seqlen_k <= kSeqlen; ++seqlen_k) {
      for (i64 valid_k = 0; valid_k <= seqlen_k; ++valid_k) {
        for (i64 left = -1; left <= kSeqlen; ++left) {
          for (i64 right = -1; right <= kSeqlen; ++right) {
            const Mask mask = {.seqlen_q = seqlen_q,
                               .seqlen_k = seqlen_k,
                               .left = left,
                               .right = right,
                               .valid_k = valid_k};
            if (!holds(mask, tilings)) return;
          }
        }
      }
    }
  }
}

TEST(Mask, RandomBlockPatternsHoldWithWindowsPaddingAndTilesThatDoNotMatch) {
  std::mt19937 random(20240607);
  const auto draw = [&random](i64 low, i64 high) {
    return std::uniform_int_distribution<i64>(low, high)(random);
  };
  for (int trial = 0; trial < 40000; ++trial) {
    const i64 seqlen_q = draw(1, 40), seqlen_k = draw(1, kLargest);
    const i64 block_q = draw(1, 20), block_k = draw(1, 20);
    const i64 blocks_k = ceil_div(seqlen_k, block_k);
    std::vector<u8> pattern(static_cast<std::size_t>(ceil_div(seqlen_q, block_q) * blocks_k));
    const i64 tenths = draw(0, 10);  // from an empty pattern to a full one
    for (u8& block : pattern) block = draw(1, 10) <= tenths ? 1 : 0;
    const bool windowed = draw(0, 1) == 1;
    const Mask mask = {.seqlen_q = seqlen_q,
                       .seqlen_k = seqlen_k,
                       .left = windowed ? draw(-1, 41) : -1,
                       .right = windowed ? draw(-1, 41) : -1,
                       .valid_k = draw(0, 1) == 1 ? draw(0, seqlen_k) : seqlen_k,
                       .blocks = {.visible = pattern.data(),
                                  .block_q = static_cast<i32>(block_q),
                                  .block_k = static_cast<i32>(block_k),
                                  .blocks_k = blocks_k}};
    const Tiling tiling = {static_cast<i32>(draw(1, 20)), static_cast<i32>(draw(1, 20))};
    if (!holds(mask, {tiling, {1, 1}, {8, 8}, {64, 64}})) return;
  }
}

// Rows need not start on a tile border, as in a split of the work.
TEST(Mask, EmptyRectanglesAreEmpty) {
  const Mask mask = {.seqlen_q = 4, .seqlen_k = 4, .valid_k = 4};
  EXPECT_EQ(classify(mask, {2, 2}, {0, 4}), TileClass::empty);
  EXPECT_EQ(classify(mask, {0, 4}, {4, 8}), TileClass::empty);
  EXPECT_TRUE(n_block_range(mask, {2, 2}, 2).empty());
}

}  // namespace
}  // namespace attnlab
