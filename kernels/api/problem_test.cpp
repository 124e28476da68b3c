#include "kernels/api/problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace attnlab {
namespace {

Problem small() {
  return {.batch = 2,
          .num_heads_q = 4,
          .num_heads_kv = 2,
          .seqlen_q = 6,
          .seqlen_k = 10,
          .head_dim = 16};
}

Problem padded() {
  Problem problem = small();
  problem.mask.padding.emplace();
  problem.lengths = {.kind = LengthsKind::padding, .keys = {3, 10}};
  return problem;
}

Problem packed() {
  Problem problem = small();
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {6, 2}, .keys = {4, 10}};
  return problem;
}

TEST(Problem, IdNamesEverything) {
  Problem problem = {.batch = 1,
                     .num_heads_q = 8,
                     .num_heads_kv = 8,
                     .seqlen_q = 4096,
                     .seqlen_k = 4096,
                     .head_dim = 64,
                     .mask = {.causal = true}};
  EXPECT_EQ(problem.id(), "fwd/f32/b1/hq8/hkv8/sq4096/sk4096/d64/causal/p0/bshd");
  problem.pass = Pass::fwdbwd;
  problem.dtype = Dtype::bf16;
  problem.dropout = 0.17;
  problem.softmax_scale = 0.25;
  problem.layout = Layout::bhsd;
  EXPECT_EQ(problem.id(), "fwdbwd/bf16/b1/hq8/hkv8/sq4096/sk4096/d64/causal/p0.17/bhsd/scale0.25");
}

TEST(Problem, IdChangesWithEveryAxis) {
  const std::vector<std::function<void(Problem&)>> changes = {
      [](Problem&) {},
      [](Problem& p) { p.pass = Pass::bwd; },
      [](Problem& p) { p.dtype = Dtype::f16; },
      [](Problem& p) { p.batch = 3; },
      [](Problem& p) { p.num_heads_q = 2; },
      [](Problem& p) { p.num_heads_kv = 4; },
      [](Problem& p) { p.seqlen_q = 7; },
      [](Problem& p) { p.seqlen_k = 7; },
      [](Problem& p) { p.head_dim = 7; },
      [](Problem& p) {
        p.mask.window = WindowSpec{1, 2};
      },
      [](Problem& p) { p.dropout = 0.5; },
      [](Problem& p) { p.dropout = 0.5 + 1.0 / 65536; },  // the next mask there is
      [](Problem& p) { p.softmax_scale = 0.5; },
      [](Problem& p) { p.layout = Layout::bhsd; }};
  std::set<std::string> ids;
  for (const auto& change : changes) {
    Problem problem = small();
    change(problem);
    EXPECT_TRUE(ids.insert(problem.id()).second) << problem.id();
  }
}

TEST(Problem, GoodOnesAreValid) {
  EXPECT_EQ(invalid(Problem{}), "");
  EXPECT_EQ(invalid(small()), "");
  EXPECT_EQ(invalid(padded()), "");
  EXPECT_EQ(invalid(packed()), "");
  Problem problem = padded();
  problem.lengths.keys = {0, 10};  // an entry may have no keys
  problem.dropout = 65535.0 / 65536;
  EXPECT_EQ(invalid(problem), "");
}

struct Rule {
  const char* sentence;  // part of what invalid() says
  Problem (*good)();
  void (*spoil)(Problem&);
};

TEST(Problem, EveryRuleNamesItsField) {
  const Rule rules[] = {
      {"batch must", small, [](Problem& p) { p.batch = 0; }},
      {"num_heads_q must", small, [](Problem& p) { p.num_heads_q = -1; }},
      {"num_heads_kv must", small, [](Problem& p) { p.num_heads_kv = 0; }},
      {"seqlen_q must", small, [](Problem& p) { p.seqlen_q = 0; }},
      {"seqlen_k must", small, [](Problem& p) { p.seqlen_k = 0; }},
      {"head_dim must", small, [](Problem& p) { p.head_dim = 0; }},
      {"seqlen_k is above", small, [](Problem& p) { p.seqlen_k = (1L << 31) + 1; }},
      {"not a multiple of num_heads_kv", small, [](Problem& p) { p.num_heads_kv = 3; }},
      {"not a multiple of num_heads_kv", small, [](Problem& p) { p.num_heads_kv = 8; }},
      {"above 2^56", small,
       [](Problem& p) { p.seqlen_q = p.seqlen_k = 1L << 27; }},  // times 8 slices: 2^57
      {"dropout must", small, [](Problem& p) { p.dropout = 1.0; }},
      {"dropout must", small, [](Problem& p) { p.dropout = -0.1; }},
      {"dropout must", small, [](Problem& p) { p.dropout = std::nan(""); }},
      {"dropout is above", small, [](Problem& p) { p.dropout = 0.999999; }},
      {"softmax_scale", small, [](Problem& p) { p.softmax_scale = -1.0; }},
      {"softmax_scale", small, [](Problem& p) { p.softmax_scale = INFINITY; }},
      {"softmax_scale", small, [](Problem& p) { p.softmax_scale = 1e39; }},
      {"softmax_scale", small, [](Problem& p) { p.softmax_scale = 1e-38; }},
      {"softmax_scale", small, [](Problem& p) { p.softmax_scale = std::nan(""); }},
      {"dense takes no lists", small,
       [](Problem& p) {
         p.lengths.keys = {1, 1};
       }},
      {"dense takes no lists", small,
       [](Problem& p) {
         p.lengths.queries = {1, 1};
       }},
      {"mask padding needs", small, [](Problem& p) { p.mask.padding.emplace(); }},
      {"lengths: keys", padded, [](Problem& p) { p.lengths.keys = {3}; }},
      {"lengths: keys", padded, [](Problem& p) { p.lengths.keys[0] = 11; }},
      {"lengths: keys", padded, [](Problem& p) { p.lengths.keys[1] = -1; }},
      {"lengths: queries", padded,
       [](Problem& p) {
         p.lengths.queries = {1, 1};
       }},
      {"go together", small, [](Problem& p) { p.layout = Layout::packed; }},
      {"go together", packed, [](Problem& p) { p.layout = Layout::bshd; }},
      {"lengths: keys", packed, [](Problem& p) { p.lengths.keys = {}; }},
      {"lengths: queries", packed, [](Problem& p) { p.lengths.queries = {6}; }},
      {"lengths: queries", packed, [](Problem& p) { p.lengths.queries[0] = 7; }},
  };
  for (const Rule& rule : rules) {
    Problem problem = rule.good();
    rule.spoil(problem);
    EXPECT_NE(invalid(problem).find(rule.sentence), std::string::npos)
        << "want '" << rule.sentence << "', got '" << invalid(problem) << "'";
  }
}

TEST(Problem, SaysWhatItRunsAndWhetherItDrops) {
  Problem problem;
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    problem.pass = pass;
    EXPECT_EQ(problem.runs_forward(), pass == Pass::fwd || pass == Pass::fwdbwd);
    EXPECT_EQ(problem.runs_backward(), pass == Pass::bwd || pass == Pass::fwdbwd);
  }
  EXPECT_FALSE(problem.has_pattern());
  problem.mask = parse_mask("blocks:butterfly:16x16+causal");
  EXPECT_TRUE(problem.has_pattern());
  EXPECT_FALSE(problem.drops());
  problem.dropout = 0.1;
  EXPECT_TRUE(problem.drops());
  problem.dropout = 0.4 / 65536;  // rounds to a threshold of 0
  EXPECT_FALSE(problem.drops());
}

TEST(Problem, ScaleDefaultsToTheRootOfTheHeadDim) {
  Problem problem = small();
  EXPECT_EQ(problem.scale(), 0.25);
  EXPECT_EQ(make_shape(problem).softmax_scale, 0.25f);
  problem.softmax_scale = 0.5;
  EXPECT_EQ(problem.scale(), 0.5);
}

TEST(Problem, ElementsCountWhatIsStored) {
  EXPECT_EQ(small().elements_q(), 2 * 4 * 6 * 16);
  EXPECT_EQ(small().elements_k(), 2 * 2 * 10 * 16);
  EXPECT_EQ(small().elements_lse(), 2 * 4 * 6);
  EXPECT_EQ(padded().elements_k(), small().elements_k());  // padding is stored
  EXPECT_EQ(packed().elements_q(), (6 + 2) * 4 * 16);
  EXPECT_EQ(packed().elements_k(), (4 + 10) * 2 * 16);
  EXPECT_EQ(size_bytes(Dtype::f32), 4);
  EXPECT_EQ(size_bytes(Dtype::f16), 2);
  EXPECT_EQ(size_bytes(Dtype::bf16), 2);
}

TEST(Problem, QueriesAndKeysOfAnEntry) {
  EXPECT_EQ(small().queries(1), 6);
  EXPECT_EQ(small().keys(1), 10);
  EXPECT_EQ(padded().queries(0), 6);
  EXPECT_EQ(padded().keys(0), 3);
  EXPECT_EQ(packed().queries(1), 2);
  EXPECT_EQ(packed().keys(0), 4);
}

TEST(Problem, ShapeHasTheStridesOfTheLayout) {
  Problem problem = small();
  EXPECT_EQ(make_shape(problem).q, strides_bshd(6, 4, 16));
  EXPECT_EQ(make_shape(problem).k, strides_bshd(10, 2, 16));
  problem.layout = Layout::bhsd;
  EXPECT_EQ(make_shape(problem).q, strides_bhsd(6, 4, 16));
  EXPECT_EQ(make_shape(problem).k, strides_bhsd(10, 2, 16));
  EXPECT_EQ(make_shape(packed()).q, strides_packed(4, 16));
  EXPECT_EQ(make_shape(packed()).k, strides_packed(2, 16));
}

TEST(Problem, NeighbouringQueryHeadsShareAKvHead) {
  const Shape shape = make_shape(small());
  EXPECT_EQ(shape.kv_head(0), 0);
  EXPECT_EQ(shape.kv_head(1), 0);
  EXPECT_EQ(shape.kv_head(2), 1);
  EXPECT_EQ(shape.kv_head(3), 1);
  EXPECT_EQ(shape.row_statistic_offset(1, 2, 5), (1 * 4 + 2) * 6 + 5);
}

// The diagonal follows the tensors' lengths under padding, the entry's own when packed.
TEST(Problem, DiagonalOfTheMaskFollowsTheLengths) {
  Problem problem = padded();
  problem.mask.causal = true;
  const Mask of_padded = make_mask(problem, 0, {});
  EXPECT_EQ(of_padded.seqlen_k - of_padded.seqlen_q, 4);
  EXPECT_EQ(of_padded.valid_k, 3);
  EXPECT_EQ(of_padded.right, 0);
  const Mask of_packed = make_mask(packed(), 1, {});
  EXPECT_EQ(of_packed.seqlen_k - of_packed.seqlen_q, 8);
  EXPECT_EQ(of_packed.valid_k, 10);
}

std::int64_t count_pairs(const Problem& problem, std::int64_t b, const std::vector<u8>& pattern) {
  const std::int64_t queries = problem.queries(b), keys = problem.keys(b);
  const bool is_packed = problem.lengths.kind == LengthsKind::packed;
  const std::int64_t diagonal = (is_packed ? keys : problem.seqlen_k) - queries;
  std::int64_t pairs = 0;
  for (std::int64_t r = 0; r < queries; ++r) {
    for (std::int64_t c = 0; c < keys; ++c) {
      const std::int64_t distance = c - r - diagonal;
      bool visible = !problem.mask.causal || distance <= 0;
      if (problem.mask.window) {
        const WindowSpec& window = *problem.mask.window;
        visible &= window.left < 0 || distance >= -window.left;
        visible &= window.right < 0 || distance <= window.right;
      }
      if (problem.mask.blocks) {
        const BlocksSpec& blocks = *problem.mask.blocks;
        const std::int64_t row_length = (problem.seqlen_k + blocks.block_k - 1) / blocks.block_k;
        const std::int64_t block = r / blocks.block_q * row_length + c / blocks.block_k;
        visible &= pattern[static_cast<std::size_t>(block)] != 0;
      }
      pairs += visible ? 1 : 0;
    }
  }
  return pairs;
}

TEST(Problem, VisiblePairsEqualADoubleLoop) {
  const char* masks[] = {"none",
                         "causal",
                         "window:2:1",
                         "causal+window:3:5",
                         "window:-1:0",
                         "blocks:butterfly:3x4",
                         "causal+window:9:-1+blocks:butterfly:2x5"};
  for (const char* mask : masks) {
    for (Problem problem : {small(), padded(), packed()}) {
      const auto padding = problem.mask.padding;
      problem.mask = parse_mask(mask);
      problem.mask.padding = padding;
      if (problem.mask.blocks) {
        if (problem.layout == Layout::packed) continue;
        problem.seqlen_q = problem.seqlen_k;
      }
      ASSERT_EQ(invalid(problem), "") << mask;
      const std::vector<u8> pattern = make_block_pattern(problem);
      const BlockPattern view = view_block_pattern(problem, pattern.data());
      for (std::int64_t b = 0; b < problem.batch; ++b) {
        EXPECT_EQ(problem.visible_pairs(b, view), count_pairs(problem, b, pattern))
            << problem.id() << " entry " << b;
      }
    }
  }
}

TEST(Problem, WithoutAPatternThereIsNothingToView) {
  EXPECT_TRUE(make_block_pattern(small()).empty());
  EXPECT_EQ(view_block_pattern(small(), nullptr).visible, nullptr);
}

}  // namespace
}  // namespace attnlab
