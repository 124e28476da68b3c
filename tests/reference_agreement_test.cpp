// The oracle writes masks and dropout a second time; here the two writings meet.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
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

// Number of pairs on which the oracle's mask and the kernels' differ, over all entries.
std::int64_t differences(const Problem& problem) {
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const Mask mask = make_mask(problem, b, view_block_pattern(problem, pattern.data()));
    for (std::int64_t r = 0; r < problem.queries(b); ++r) {
      for (std::int64_t c = 0; c < mask.seqlen_k; ++c) {
        count += is_visible(mask, r, c) != reference::key_is_visible(problem, b, r, c) ? 1 : 0;
      }
    }
  }
  return count;
}

// Every window whose bounds can matter, with and without causal, and the block pattern if any.
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
