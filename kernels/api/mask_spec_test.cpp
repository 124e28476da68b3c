#include "kernels/api/mask_spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/api/malformed_pattern.h"

namespace attnlab {
namespace {

// Returns every combination of these parts, each of which may be absent.
std::vector<MaskSpec> many_masks() {
  std::vector<MaskSpec> masks;
  const std::vector<std::optional<WindowSpec>> windows = {
      std::nullopt, WindowSpec{-1, -1}, WindowSpec{0, 0}, WindowSpec{128, -1}, WindowSpec{-1, 7}};
  const std::vector<std::optional<PaddingSpec>> paddings = {std::nullopt, PaddingSpec{},
                                                            PaddingSpec{0}, PaddingSpec{1000}};
  const std::vector<std::optional<BlocksSpec>> patterns = {
      std::nullopt, BlocksSpec{"butterfly", {}, 128, 64}, BlocksSpec{"strided", {4, 2}, 1, 256}};
  for (bool causal : {false, true}) {
    for (const auto& window : windows) {
      for (const auto& padding : paddings) {
        for (const auto& blocks : patterns) masks.push_back({causal, window, padding, blocks});
      }
    }
  }
  return masks;
}

TEST(MaskSpec, TextRoundTrips) {
  for (const MaskSpec& mask : many_masks()) {
    const std::string text = to_string(mask);
    EXPECT_EQ(parse_mask(text), mask) << text;
    EXPECT_EQ(text == "none", mask.is_none()) << text;
  }
}

TEST(MaskSpec, ReadsEveryForm) {
  EXPECT_TRUE(parse_mask("none").is_none());
  EXPECT_EQ(parse_mask("causal"), (MaskSpec{.causal = true}));
  EXPECT_EQ(parse_mask("window:3:-1"), (MaskSpec{.window = WindowSpec{3, -1}}));
  EXPECT_EQ(parse_mask("padding"), (MaskSpec{.padding = PaddingSpec{-1}}));
  EXPECT_EQ(parse_mask("padding:5"), (MaskSpec{.padding = PaddingSpec{5}}));
  EXPECT_EQ(parse_mask("blocks:butterfly:128x64"),
            (MaskSpec{.blocks = BlocksSpec{"butterfly", {}, 128, 64}}));
}

TEST(MaskSpec, PartsComeInAnyOrderAndAreWrittenInOne) {
  EXPECT_EQ(to_string(parse_mask("blocks:butterfly:16x16+padding:3+window:8:0+causal")),
            "causal+window:8:0+padding:3+blocks:butterfly:16x16");
}

TEST(MaskSpec, BandIsWhatCausalAndWindowLeaveTogether) {
  const struct {
    const char* text;
    std::int64_t left, right;
  } cases[] = {{"none", -1, -1},       {"causal", -1, 0},           {"window:4:2", 4, 2},
               {"window:4:-1", 4, -1}, {"causal+window:4:2", 4, 0}, {"causal+window:4:-1", 4, 0}};
  for (const auto& [text, left, right] : cases) {
    EXPECT_EQ(parse_mask(text).left(), left) << text;
    EXPECT_EQ(parse_mask(text).right(), right) << text;
  }
}

TEST(MaskSpec, BadTextIsRefusedWithASentenceThatNamesPartAndForms) {
  const struct {
    const char* text;
    const char* part;
    const char* reason;
  } cases[] = {{"", "mask ''", "is not a mask"},
               {"causl", "'causl'", "is not a mask"},
               {"none+causal", "'none'", "is not a mask"},
               {"causal+", "mask ''", "is not a mask"},
               {"causal:1", "'causal:1'", "is not a mask"},
               {"causal+causal", "'causal'", "is given twice"},
               {"window:1", "'window:1'", "is not a mask"},
               {"window:1:2:3", "'window:1:2:3'", "is not a mask"},
               {"window:1:2+window:1:2", "'window:1:2'", "is given twice"},
               {"window:a:2", "'window:a:2'", "'a' is not a whole number"},
               {"window:1.5:2", "'window:1.5:2'", "'1.5' is not a whole number"},
               {"window::2", "'window::2'", "'' is not a whole number"},
               {"window:-2:2", "'window:-2:2'", "'-2' is out of range"},
               {"window:0:9999999999999", "'window:0", "is out of range"},
               {"window:0:99999999999999999999", "'window:0", "is out of range"},
               {"padding:-1", "'padding:-1'", "out of range"},
               {"padding+padding:3", "'padding:3'", "is given twice"},
               {"blocks", "'blocks'", "needs a pattern and a block size"},
               {"blocks:butterfly", "'blocks:butterfly'", "needs a pattern and a block size"},
               {"blocks::64x64", "'blocks::64x64'", "name is missing"},
               {"blocks:butterfly:64", "'blocks:butterfly:64'", "block size, like 128x128"},
               {"blocks:butterfly:0x64", "'blocks:butterfly:0x64'", "'0' is out of range"},
               {"blocks:butterfly:2097152x1", "'blocks", "block size is too large"},
               {"blocks:strided:-4:64x64", "'blocks:strided:-4:64x64'", "'-4' is out of range"},
               {"blocks:moth:8x8", "'blocks:moth:8x8'", "'moth' does not exist; there are: b"},
               {"blocks:random:150:16x16", "'blocks:random:150:16x16'", "a PERCENT up to 100"},
               {"blocks:strided:1:0:8x8", "'blocks:strided:1:0:8x8'", "needs a STRIDE above 0"},
               {"blocks:local:8x8", "'blocks:local:8x8'", "is written local:WIDTH"},
               {"blocks:file=x:3:8x8", "'blocks:file=x:3:8x8'", "takes no arguments"},
               {"blocks:butterfly:8x8+blocks:butterfly:8x8", "'blocks", "is given twice"}};
  for (const auto& [text, part, reason] : cases) {
    try {
      parse_mask(text);
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(part), std::string::npos) << text << " -> " << message;
      EXPECT_NE(message.find(reason), std::string::npos) << text << " -> " << message;
      EXPECT_NE(message.find("a mask is none, or parts"), std::string::npos) << message;
    }
  }
}

TEST(MaskSpec, ButterflySeesTheDiagonalAndPowersOfTwoAway) {
  const BlocksSpec spec = {.pattern = "butterfly", .block_q = 10, .block_k = 20};
  const auto visible = visible_blocks(spec, 95, 95);  // 10 x 5 blocks, the last ones cut
  ASSERT_EQ(visible.size(), 50u);
  for (std::size_t i = 0; i < 10; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      bool want = i == j;
      for (std::size_t power = 1; power < 16; power *= 2) want |= (i ^ j) == power;
      EXPECT_EQ(visible[i * 5 + j] != 0, want) << i << ", " << j;
    }
  }
}

// Returns rows of '1' and '0' of a pattern of n x n blocks.
std::vector<std::string> drawn(const char* mask, std::int64_t n) {
  const BlocksSpec spec = *parse_mask(mask).blocks;
  const auto visible = visible_blocks(spec, n * spec.block_q, n * spec.block_k);
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n * n); ++i) {
    if (i % static_cast<std::size_t>(n) == 0) rows.emplace_back();
    rows.back() += visible[i] != 0 ? '1' : '0';
  }
  return rows;
}

using Rows = std::vector<std::string>;

TEST(MaskSpec, PatternsOfTheLiterature) {
  EXPECT_EQ(drawn("blocks:local:0:4x4", 3), (Rows{"100", "010", "001"}));
  EXPECT_EQ(drawn("blocks:local:1:8x8", 4), (Rows{"1100", "1110", "0111", "0011"}));
  EXPECT_EQ(drawn("blocks:strided:0:2:8x8", 4), (Rows{"1010", "0101", "1010", "0101"}));
  EXPECT_EQ(drawn("blocks:strided:1:3:8x8", 5),
            (Rows{"11010", "11101", "01110", "10111", "01011"}));
  EXPECT_EQ(drawn("blocks:longformer:1:1:8x8", 4), (Rows{"1111", "1110", "1111", "1011"}));
  EXPECT_EQ(drawn("blocks:longformer:0:2:8x8", 4), (Rows{"1111", "1111", "1110", "1101"}));
}

TEST(MaskSpec, BigBirdAddsAtMostSoManyRandomBlocksARow) {
  const Rows window = drawn("blocks:longformer:1:1:8x8", 40);
  std::int64_t added_in_all = 0;
  for (const char* mask : {"blocks:bigbird:1:1:2:8x8", "blocks:bigbird:1:1:2:9:8x8"}) {
    const Rows random = drawn(mask, 40);
    for (std::size_t i = 0; i < 40; ++i) {
      std::int64_t added = 0;
      for (std::size_t j = 0; j < 40; ++j) {
        EXPECT_GE(random[i][j], window[i][j]);
        added += random[i][j] - window[i][j];
      }
      EXPECT_LE(added, 2);
      added_in_all += added;
    }
  }
  EXPECT_GT(added_in_all, 100);
  EXPECT_NE(drawn("blocks:bigbird:1:1:2:8x8", 40), drawn("blocks:bigbird:1:1:2:9:8x8", 40));
  EXPECT_EQ(drawn("blocks:bigbird:1:1:2:8x8", 40), drawn("blocks:bigbird:1:1:2:0:8x8", 40));
}

TEST(MaskSpec, RandomBlocksHaveTheirShareAndTheDiagonal) {
  for (const std::int64_t percent : {0, 10, 50, 100}) {
    const std::string mask = "blocks:random:" + std::to_string(percent) + ":3:8x8";
    const Rows rows = drawn(mask.c_str(), 100);
    std::int64_t visible = 0;
    for (std::size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(rows[i][i], '1');
      for (const char c : rows[i]) visible += c == '1' ? 1 : 0;
    }
    // 100 of the diagonal and 9900 draws; four standard deviations are at most 200.
    EXPECT_NEAR(static_cast<double>(visible), 100.0 + 99.0 * static_cast<double>(percent),
                percent % 100 == 0 ? 0.0 : 200.0);
  }
}

// PatternFileText is a pattern file that lives as long as the object.
class PatternFileText {
 public:
  explicit PatternFileText(const std::string& text)
      : path_(testing::TempDir() + "pattern" + std::to_string(getpid()) + ".txt") {
    std::ofstream(path_) << text;
  }
  ~PatternFileText() { std::remove(path_.c_str()); }
  BlocksSpec spec() const {
    return {.pattern = "file=" + path_, .arguments = {}, .block_q = 10, .block_k = 20};
  }

 private:
  std::string path_;
};

TEST(MaskSpec, PatternFilesAreRead) {
  const PatternFileText file("1 0 1\n\n0 1 1\r\n");
  EXPECT_EQ(visible_blocks(file.spec(), 15, 50), (std::vector<std::uint8_t>{1, 0, 1, 0, 1, 1}));
  const std::string text = "blocks:" + file.spec().pattern + ":10x20";
  EXPECT_EQ(to_string(parse_mask(text)), text);
}

TEST(MaskSpec, PatternFilesThatDoNotFitSayWhy) {
  const auto reason = [](const std::string& text) {
    const PatternFileText file(text);
    EXPECT_THROW(visible_blocks(file.spec(), 15, 50), std::invalid_argument);
    return unsupported_pattern(file.spec(), 15, 50);
  };
  const auto expect = [](const std::string& got, const std::string& part) {
    EXPECT_NE(got.find(part), std::string::npos) << got;
  };
  expect(reason("1010\n0110\n"), "has 2 rows of 4 blocks; 2 of 3 are needed");
  expect(reason("101\n"), "has 1 rows of 3 blocks; 2 of 3 are needed");
  expect(reason("101\n011\n111\n"), "has 3 rows of 3 blocks; 2 of 3 are needed");
  expect(reason("101\n01\n"), "line 2 has 2 blocks, line 1 has 3");
  expect(reason("101\n0a1\n"), "line 2 has a character that is not 0 or 1");
  expect(unsupported_pattern({"file=/does/not/exist", {}, 8, 8}, 8, 8), "cannot be read");
  expect(unsupported_pattern({"file=x", {1}, 8, 8}, 8, 8), "takes no arguments");
}

TEST(MaskSpec, PatternsThatFitNoLengthsAreMalformed) {
  const auto of_file = [](const std::string& text) {
    return malformed_pattern(PatternFileText(text).spec());
  };
  const auto expect = [](const std::string& got, const std::string& part) {
    EXPECT_NE(got.find(part), std::string::npos) << got;
  };
  for (const char* text : {"1", "101\n011\n", "1 0 1\n\n011\r\n"}) EXPECT_EQ(of_file(text), "");
  expect(of_file("101\n01\n"), "line 2 has 2 blocks, line 1 has 3");
  expect(of_file("101\n0110\n"), "line 2 has 4 blocks, line 1 has 3");
  expect(of_file("101\n0a1\n"), "line 2 has a character that is not 0 or 1");
  for (const char* text : {"", "\n \n"}) expect(of_file(text), "holds no blocks: write lines of");
  for (const char* file : {"file=", "file=/does/not/exist", "file=/", "file=/dev/zero"}) {
    expect(malformed_pattern({file, {}, 8, 8}), "cannot be read as a file");
  }
  expect(malformed_pattern({"file=x", {1}, 8, 8}), "takes no arguments");
  expect(malformed_pattern({"random", {101}, 8, 8}), "needs a PERCENT up to 100");
  EXPECT_EQ(malformed_pattern({"butterfly", {}, 8, 8}), "");
}

TEST(MaskSpec, PatternsThatCannotBeFormedSayWhy) {
  const auto reason = [](const BlocksSpec& spec, std::int64_t seqlen_k) {
    std::string text = unsupported_pattern(spec, 64, seqlen_k);
    if (text.empty()) {
      EXPECT_NO_THROW(visible_blocks(spec, 64, seqlen_k));
    } else {
      EXPECT_THROW(visible_blocks(spec, 64, seqlen_k), std::invalid_argument);
    }
    return text;
  };
  EXPECT_EQ(reason({"butterfly", {}, 8, 8}, 64), "");
  EXPECT_NE(reason({"butterfly", {}, 8, 8}, 65).find("seqlen_q = seqlen_k"), std::string::npos);
  const auto expect = [&](const BlocksSpec& spec, const char* part) {
    EXPECT_NE(reason(spec, 64).find(part), std::string::npos) << reason(spec, 64);
  };
  expect({"butterfly", {2}, 8, 8}, "is written butterfly");
  expect({"local", {}, 8, 8}, "is written local:WIDTH");
  expect({"bigbird", {1, 1}, 8, 8}, "is written bigbird:WIDTH:GLOBAL:RANDOM[:SEED]");
  expect({"strided", {1, 0}, 8, 8}, "needs a STRIDE above 0");
  expect({"random", {101}, 8, 8}, "needs a PERCENT up to 100");
  expect({"moth", {}, 8, 8}, "'moth' does not exist; there are: butterfly, local:WIDTH,");
}

}  // namespace
}  // namespace attnlab
