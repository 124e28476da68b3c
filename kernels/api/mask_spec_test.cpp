#include "kernels/api/mask_spec.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace attnlab {
namespace {

// Every combination of these parts, each of which may be absent.
std::vector<MaskSpec> many_masks() {
  std::vector<MaskSpec> masks;
  const std::vector<std::optional<WindowSpec>> windows = {
      std::nullopt, WindowSpec{-1, -1}, WindowSpec{0, 0}, WindowSpec{128, -1}, WindowSpec{-1, 7}};
  const std::vector<std::optional<PaddingSpec>> paddings = {std::nullopt, PaddingSpec{},
                                                            PaddingSpec{0}, PaddingSpec{1000}};
  const std::vector<std::optional<BlocksSpec>> patterns = {
      std::nullopt, BlocksSpec{"butterfly", {}, 128, 64}, BlocksSpec{"strided", {4, 0}, 1, 256}};
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
               {"window:0:99999999999999999999", "'window:0", "is not a whole number"},
               {"padding:-1", "'padding:-1'", "out of range"},
               {"padding+padding:3", "'padding:3'", "is given twice"},
               {"blocks", "'blocks'", "needs a pattern and a block size"},
               {"blocks:butterfly", "'blocks:butterfly'", "needs a pattern and a block size"},
               {"blocks::64x64", "'blocks::64x64'", "name is missing"},
               {"blocks:butterfly:64", "'blocks:butterfly:64'", "block size, like 128x128"},
               {"blocks:butterfly:0x64", "'blocks:butterfly:0x64'", "'0' is out of range"},
               {"blocks:butterfly:2097152x1", "'blocks", "block size is too large"},
               {"blocks:strided:-4:64x64", "'blocks:strided:-4:64x64'", "'-4' is out of range"},
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
  EXPECT_NE(reason({"butterfly", {2}, 8, 8}, 64).find("no arguments"), std::string::npos);
  EXPECT_NE(reason({"moth", {}, 8, 8}, 64).find("'moth' does not exist"), std::string::npos);
}

}  // namespace
}  // namespace attnlab
