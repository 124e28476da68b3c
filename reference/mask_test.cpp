#include "reference/mask.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace attnlab::reference {
namespace {

// One string a row: '#' visible, '.' not.
std::vector<std::string> draw(const Problem& problem, std::int64_t b = 0) {
  std::vector<std::string> rows;
  for (std::int64_t r = 0; r < rows_in_memory(problem, b); ++r) {
    std::string row;
    for (std::int64_t c = 0; c < keys_in_memory(problem, b); ++c) {
      row += key_is_visible(problem, b, r, c) ? '#' : '.';
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> draw(const char* mask, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  return draw(Problem{.seqlen_q = seqlen_q, .seqlen_k = seqlen_k, .mask = parse_mask(mask)});
}

using Rows = std::vector<std::string>;

TEST(Mask, None) { EXPECT_EQ(draw("none", 2, 3), (Rows{"###", "###"})); }

TEST(Mask, CausalIsAlignedAtTheBottomRight) {
  EXPECT_EQ(draw("causal", 4, 6), (Rows{"###...",  //
                                        "####..",  //
                                        "#####.",  //
                                        "######"}));
  EXPECT_EQ(draw("causal", 3, 3), (Rows{"#..", "##.", "###"}));
}

TEST(Mask, CausalWithMoreRowsThanKeysLeavesTheFirstRowsEmpty) {
  EXPECT_EQ(draw("causal", 5, 2), (Rows{"..", "..", "..", "#.", "##"}));
}

TEST(Mask, Window) {
  EXPECT_EQ(draw("window:1:0", 4, 6), (Rows{".##...",  //
                                            "..##..",  //
                                            "...##.",  //
                                            "....##"}));
  EXPECT_EQ(draw("window:1:2", 4, 4), (Rows{"###.", "####", ".###", "..##"}));
  EXPECT_EQ(draw("window:0:0", 3, 3), (Rows{"#..", ".#.", "..#"}));
}

TEST(Mask, WindowBoundsOfMinusOneAreOpen) {
  EXPECT_EQ(draw("window:-1:1", 3, 4), (Rows{"###.", "####", "####"}));
  EXPECT_EQ(draw("window:1:-1", 3, 4), (Rows{"####", ".###", "..##"}));
  EXPECT_EQ(draw("window:-1:-1", 2, 2), (Rows{"##", "##"}));
}

TEST(Mask, CausalCutsTheRightOfAWindow) {
  EXPECT_EQ(draw("causal+window:1:2", 4, 4), (Rows{"#...", "##..", ".##.", "..##"}));
}

TEST(Mask, PaddingHidesKeysAndLeavesTheDiagonalWhereItWas) {
  Problem problem = {.batch = 2, .seqlen_q = 3, .seqlen_k = 5, .mask = parse_mask("padding")};
  problem.lengths = {.kind = LengthsKind::padding, .keys = {4, 0}};
  EXPECT_EQ(draw(problem, 0), (Rows{"####.", "####.", "####."}));
  EXPECT_EQ(draw(problem, 1), (Rows{".....", ".....", "....."}));
  problem.mask = parse_mask("causal+padding");
  EXPECT_EQ(draw(problem, 0), (Rows{"###..", "####.", "####."}));
}

TEST(Mask, PackedEntriesHaveDiagonalsOfTheirOwn) {
  Problem problem = {.batch = 2, .seqlen_q = 3, .seqlen_k = 4, .mask = parse_mask("causal")};
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {2, 3}, .keys = {4, 1}};
  EXPECT_EQ(draw(problem, 0), (Rows{"###.", "####"}));
  EXPECT_EQ(draw(problem, 1), (Rows{".", ".", "#"}));
}

TEST(Mask, Butterfly) {
  EXPECT_EQ(draw("blocks:butterfly:1x1", 8, 8), (Rows{"###.#...",  //
                                                      "##.#.#..",  //
                                                      "#.##..#.",  //
                                                      ".###...#",  //
                                                      "#...###.",  //
                                                      ".#..##.#",  //
                                                      "..#.#.##",  //
                                                      "...#.###"}));
}

TEST(Mask, ButterflyBlocksNeedNotBeSquareNorFitTheEnd) {
  EXPECT_EQ(draw("blocks:butterfly:2x1", 5, 5),
            (Rows{"###.#", "###.#", "##.#.", "##.#.", "#.##."}));
  EXPECT_EQ(draw("causal+blocks:butterfly:2x1", 5, 5),
            (Rows{"#....", "##...", "##...", "##.#.", "#.##."}));
}

TEST(Mask, AnUnknownPatternIsRefused) {
  EXPECT_THROW(draw("blocks:stars:1x1", 2, 2), std::invalid_argument);
}

}  // namespace
}  // namespace attnlab::reference
