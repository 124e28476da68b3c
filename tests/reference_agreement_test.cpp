// The oracle writes masks and dropout a second time; here the two writings meet.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/shared/dropout.h"
#include "reference/dropout.h"
#include "reference/mask.h"

namespace attnlab {
namespace {

constexpr std::int64_t kLongest = 20;

// Counts the pairs on which the oracle's mask and the kernels' differ, over all entries.
std::int64_t differences(const Problem& problem) {
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const reference::Visibility visibility(problem);
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const Mask mask = make_mask(problem, b, view_block_pattern(problem, pattern.data()));
    for (std::int64_t r = 0; r < problem.queries(b); ++r) {
      for (std::int64_t c = 0; c < mask.seqlen_k; ++c) {
        count += is_visible(mask, r, c) != visibility.sees(b, r, c) ? 1 : 0;
      }
    }
  }
  return count;
}

// Returns every window whose bounds can matter, with and without causal, and the block pattern.
std::vector<MaskSpec> all_masks(std::int64_t seqlen_q, std::int64_t seqlen_k) {
  const std::int64_t farthest = std::max(seqlen_q, seqlen_k);
  std::vector<std::optional<WindowSpec>> windows = {std::nullopt};
  for (std::int64_t left = -1; left <= farthest; ++left) {
    for (std::int64_t right = -1; right <= farthest; ++right) {
      windows.push_back(WindowSpec{left, right});
    }
  }
  std::vector<std::optional<BlocksSpec>> blocks = {std::nullopt};
  if (seqlen_q == seqlen_k) {
    for (const auto& [block_q, block_k] : {std::pair{1, 1}, {2, 3}, {4, 2}, {3, 3}}) {
      blocks.push_back(BlocksSpec{.pattern = "butterfly", .block_q = block_q, .block_k = block_k});
    }
  }
  std::vector<MaskSpec> masks;
  for (const auto& window : windows) {
    for (const auto& pattern : blocks) {
      for (const bool causal : {false, true}) {
        masks.push_back({.causal = causal, .window = window, .blocks = pattern});
      }
    }
  }
  return masks;
}

class MaskAgreement : public testing::TestWithParam<LengthsKind> {};

TEST_P(MaskAgreement, AtAllSmallSizes) {
  for (std::int64_t seqlen_q = 1; seqlen_q <= kLongest; ++seqlen_q) {
    for (std::int64_t seqlen_k = 1; seqlen_k <= kLongest; ++seqlen_k) {
      Problem problem = {.batch = 1, .seqlen_q = seqlen_q, .seqlen_k = seqlen_k};
      problem.lengths.kind = GetParam();
      if (GetParam() == LengthsKind::padding) {
        problem.batch = 3;
        problem.lengths.keys = {seqlen_k, seqlen_k / 2, 0};
      } else if (GetParam() == LengthsKind::packed) {
        problem.batch = 3;
        problem.layout = Layout::packed;
        problem.lengths.queries = {seqlen_q, seqlen_q / 2, seqlen_q / 3};
        problem.lengths.keys = {seqlen_k / 2, seqlen_k, 0};
      }
      for (const MaskSpec& mask : all_masks(seqlen_q, seqlen_k)) {
        problem.mask = mask;
        if (GetParam() == LengthsKind::padding) problem.mask.padding.emplace();
        ASSERT_EQ(invalid(problem), "");
        ASSERT_EQ(differences(problem), 0) << problem.id();
      }
    }
  }
}

// It covers all named patterns with their arguments, at sizes around their blocks.
TEST(PatternAgreement, NamedPatterns) {
  for (const char* pattern :
       {"butterfly", "local:0", "local:2", "strided:1:4", "strided:0:1", "longformer:1:2",
        "longformer:0:0", "bigbird:1:1:2", "bigbird:0:1:3:12345678901", "random:0", "random:35",
        "random:35:7", "random:100:1099511627775"}) {
    for (const char* blocks : {"1x1", "3x5", "16x8", "64x64"}) {
      for (const std::int64_t seqlen : {1, 7, 40, 130}) {
        const std::string mask = std::string("blocks:") + pattern + ":" + blocks;
        for (const std::string& text : {mask, "causal+" + mask, "window:9:30+" + mask}) {
          Problem problem = {.seqlen_q = seqlen, .seqlen_k = seqlen, .mask = parse_mask(text)};
          ASSERT_EQ(differences(problem), 0) << problem.id();
          problem.batch = 3;
          problem.layout = Layout::packed;
          problem.lengths = {.kind = LengthsKind::packed,
                             .given = true,
                             .queries = {seqlen, seqlen / 2, seqlen / 3},
                             .keys = {seqlen / 3, seqlen, 0}};
          ASSERT_EQ(differences(problem), 0) << problem.id();
          problem.layout = Layout::bshd;
          problem.mask = parse_mask(text + "+padding");
          problem.lengths = {
              .kind = LengthsKind::padding, .given = true, .keys = {seqlen / 2, seqlen, 0}};
          ASSERT_EQ(differences(problem), 0) << problem.id();
        }
      }
    }
  }
}

class PatternFileAgreement : public testing::Test {
 protected:
  PatternFileAgreement()
      : path_(testing::TempDir() + "attnlab_agreement_pattern" + std::to_string(getpid()) +
              ".txt") {}
  ~PatternFileAgreement() override { std::remove(path_.c_str()); }
  Problem problem_of(const std::string& text) const {
    std::ofstream(path_) << text;
    Problem problem = {.seqlen_q = 10, .seqlen_k = 17};
    problem.mask.blocks = {.pattern = "file=" + path_, .block_q = 4, .block_k = 6};
    return problem;
  }

  std::string path_;
};

TEST_F(PatternFileAgreement, OfTheRightShape) {
  Problem problem = problem_of("101\n0 1 0\r\n\n001\n");
  EXPECT_EQ(differences(problem), 0);
  problem.batch = 2;
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {10, 3}, .keys = {5, 17}};
  EXPECT_EQ(differences(problem), 0);
}

TEST_F(PatternFileAgreement, BothRefuseWhatIsNoPattern) {
  for (const char* text : {"", "101\n010\n", "101\n010\n001\n111\n", "1010\n0100\n0010\n",
                           "101\n01\n001\n", "101\n0a0\n001\n"}) {
    const Problem problem = problem_of(text);
    EXPECT_THROW(make_block_pattern(problem), std::invalid_argument) << text;
    EXPECT_THROW(reference::Visibility{problem}, std::invalid_argument) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, MaskAgreement,
                         testing::Values(LengthsKind::dense, LengthsKind::padding,
                                         LengthsKind::packed),
                         [](const auto& instance) { return to_string(instance.param); });

TEST(DropoutAgreement, EveryPositionOfAnAreaInManySlices) {
  for (const std::uint64_t seed :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    for (const double p : {0.1, 0.5, 0.9}) {
      const Problem problem = {.batch = 3, .num_heads_q = 4, .dropout = p, .seed = seed};
      const Dropout dropout = make_dropout(p, seed);
      ASSERT_EQ(dropout.threshold, reference::dropout_threshold(problem));
      ASSERT_EQ(dropout.keep_scale, static_cast<float>(reference::dropout_keep_scale(problem)));
      for (const auto& [b, head] : {std::pair{0, 0}, {1, 2}, {2, 3}}) {
        for (std::int64_t row = 0; row < 64; ++row) {
          for (std::int64_t col = 0; col < 64; ++col) {
            ASSERT_EQ(is_kept(dropout, b * 4 + head, row, col),
                      reference::element_is_kept(problem, b, head, row, col))
                << "seed " << seed << " p " << p << " slice " << b << ", " << head << " position "
                << row << ", " << col;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnlab
