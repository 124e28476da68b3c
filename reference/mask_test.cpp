#include "reference/mask.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace attnlab::reference {
namespace {

// Draws one string a row: '#' visible, '.' not.
std::vector<std::string> draw(const Problem& problem, std::int64_t b = 0) {
  const Visibility visibility(problem);
  std::vector<std::string> rows;
  for (std::int64_t r = 0; r < rows_in_memory(problem, b); ++r) {
    std::string row;
    for (std::int64_t c = 0; c < keys_in_memory(problem, b); ++c) {
      row += visibility.sees(b, r, c) ? '#' : '.';
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

TEST(Mask, LocalAndStrided) {
  EXPECT_EQ(draw("blocks:local:1:1x1", 4, 4), (Rows{"##..", "###.", ".###", "..##"}));
  EXPECT_EQ(draw("blocks:strided:0:3:1x1", 5, 5),
            (Rows{"#..#.", ".#..#", "..#..", "#..#.", ".#..#"}));
}

TEST(Mask, Longformer) {
  EXPECT_EQ(draw("blocks:longformer:0:1:2x1", 4, 4), (Rows{"####", "####", "##..", "##.."}));
  EXPECT_EQ(draw("blocks:longformer:0:1:1x1", 4, 4), (Rows{"####", "##..", "#.#.", "#..#"}));
}

// Which blocks they are is compared with the kernels' own in tests/reference_agreement_test.cpp.
TEST(Mask, RandomBlocksComeInTheirShare) {
  const auto visible = [](const char* mask) {
    std::int64_t count = 0;
    for (const std::string& row : draw(mask, 100, 100)) {
      count += std::count(row.begin(), row.end(), '#');
    }
    return count;
  };
  EXPECT_EQ(visible("blocks:random:0:1x1"), 100);  // the diagonal
  EXPECT_EQ(visible("blocks:random:100:1x1"), 10000);
  EXPECT_NEAR(static_cast<double>(visible("blocks:random:30:1x1")), 100 + 0.3 * 9900, 4 * 46);
  // The pattern has bands of 3 (298), and 5 draws of 100 a row: few repeat or fall into the band.
  EXPECT_GT(visible("blocks:bigbird:1:0:5:1x1"), 298 + 440);
  EXPECT_LE(visible("blocks:bigbird:1:0:5:1x1"), 298 + 500);
  EXPECT_NE(draw("blocks:random:30:1x1", 20, 20), draw("blocks:random:30:7:1x1", 20, 20));
  EXPECT_EQ(draw("blocks:random:30:1x1", 20, 20), draw("blocks:random:30:0:1x1", 20, 20));
}

class PatternFile : public testing::Test {
 protected:
  PatternFile()
      : path_(testing::TempDir() + "attnlab_oracle_pattern" + std::to_string(getpid()) + ".txt") {}
  ~PatternFile() override { std::remove(path_.c_str()); }
  Rows draw_file(const std::string& text, std::int64_t seqlen_q, std::int64_t seqlen_k) const {
    std::ofstream(path_) << text;
    const BlocksSpec blocks = {.pattern = "file=" + path_, .block_q = 2, .block_k = 1};
    return draw(Problem{.seqlen_q = seqlen_q, .seqlen_k = seqlen_k, .mask = {.blocks = blocks}});
  }

  std::string path_;
};

TEST_F(PatternFile, IsReadBlockByBlock) {
  EXPECT_EQ(draw_file("1 0 1\n\n011\r\n", 3, 3), (Rows{"#.#", "#.#", ".##"}));
}

TEST_F(PatternFile, OfAnotherShapeOrWithOtherCharactersIsRefused) {
  EXPECT_THROW(draw_file("101\n", 3, 3), std::invalid_argument);
  EXPECT_THROW(draw_file("101\n01\n", 3, 3), std::invalid_argument);
  EXPECT_THROW(draw_file("101\n0x1\n", 3, 3), std::invalid_argument);
  EXPECT_THROW(draw("blocks:file=/nowhere/at/all:1x1", 2, 2), std::invalid_argument);
}

TEST(Mask, AnUnknownPatternOrALackingArgumentIsRefused) {
  EXPECT_THROW(draw("blocks:stars:1x1", 2, 2), std::invalid_argument);
  EXPECT_THROW(draw("blocks:local:1x1", 2, 2), std::invalid_argument);
}

}  // namespace
}  // namespace attnlab::reference
