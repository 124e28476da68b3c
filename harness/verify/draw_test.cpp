#include "harness/verify/draw.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/testing/fake_kernels.h"
#include "harness/verify/options.h"

namespace attnlab::verify {
namespace {

TEST(DrawProblem, IsValidDifferentAndWithinItsBounds) {
  std::set<std::string> ids;
  std::set<std::uint64_t> seeds;
  std::map<std::string, int> seen;
  constexpr int kProblems = 2000;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem drawn = draw_problem(3, i, 4224);
    const Problem& problem = drawn.problem;
    ASSERT_EQ(invalid(problem), "") << problem.id();
    EXPECT_LE(problem.batch * problem.num_heads_q * problem.seqlen_q * problem.seqlen_k, kMostPairs)
        << problem.id();
    ids.insert(problem.id());
    seeds.insert(drawn.seed);
    ++seen[to_string(problem.dtype)];
    ++seen[to_string(problem.layout)];
    ++seen[to_string(drawn.kind)];
    const MaskSpec& mask = problem.mask;
    for (const auto& [name, there] :
         {std::pair{"causal", mask.causal},
          {"window", mask.window.has_value()},
          {"padding", mask.padding.has_value()},
          {"blocks", mask.blocks.has_value()},
          {"causal+window", mask.causal && mask.window},
          {"three parts", mask.causal + mask.window.has_value() + mask.padding.has_value() +
                                  mask.blocks.has_value() >
                              2},
          {"dropout", problem.dropout > 0.0},
          {"shared heads", problem.num_heads_q > problem.num_heads_kv},
          {"unequal", problem.seqlen_q != problem.seqlen_k},
          {"odd head dim", problem.head_dim % 2 == 1},
          {"long", problem.seqlen_q > 2048 || problem.seqlen_k > 2048},
          {"groups of 5", problem.num_heads_q == 5 * problem.num_heads_kv},
          {"groups of 6", problem.num_heads_q == 6 * problem.num_heads_kv},
          {"groups of 7", problem.num_heads_q == 7 * problem.num_heads_kv},
          {"an entry that ends at a tile's border", problem.lengths.queries.size() > 1 &&
                                                        problem.lengths.queries[1] > 0 &&
                                                        problem.lengths.queries[1] % 64 == 0},
          {"scale below 0.01", problem.softmax_scale > 0.0 && problem.softmax_scale < 0.01},
          {"scale of 1 and more", problem.softmax_scale >= 1.0}}) {
      seen[name] += there ? 1 : 0;
    }
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      seen["an entry without keys"] += problem.keys(b) == 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(seeds.size(), static_cast<std::size_t>(kProblems));  // none is used twice
  EXPECT_GT(ids.size(), kProblems * 99 / 100);
  for (const auto& [what, count] : seen) EXPECT_GE(count, kProblems / 100) << what;
  EXPECT_EQ(seen.count("an entry without keys"), 1u);
}

TEST(DrawProblem, DependsOnSeedAndNumberAlone) {
  EXPECT_EQ(draw_problem(3, 5, 4224).problem, draw_problem(3, 5, 4224).problem);
  EXPECT_NE(draw_problem(3, 5, 4224).problem, draw_problem(3, 6, 4224).problem);
  EXPECT_NE(draw_problem(3, 5, 4224).problem, draw_problem(4, 5, 4224).problem);
  EXPECT_LE(draw_problem(3, 5, 40).problem.seqlen_k, 40);
}

// Returns what a problem of e4m3 has that others lack, or have more of.
std::vector<std::string> traits_of(const RandomProblem& drawn) {
  const Problem& problem = drawn.problem;
  const Quantisation& how = problem.quantisation;
  std::vector<std::string> traits = {
      to_string(problem.layout),
      fmt::format("{} {}", to_string(how.qk), to_string(how.v)),
      fmt::format("rotate {}", how.rotate),
      std::string("kind ") + to_string(drawn.kind),
      fmt::format("head_dim {}", problem.head_dim),
      fmt::format("groups of {}", problem.num_heads_q / problem.num_heads_kv),
      fmt::format("blocks of rows {}", std::min<std::int64_t>(problem.seqlen_q / 128, 3)),
      fmt::format("blocks of keys {}", std::min<std::int64_t>(problem.seqlen_k / 128, 3)),
      problem.seqlen_q == problem.seqlen_k ? "equal" : "unequal",
      problem.num_heads_kv == 1 && problem.num_heads_q > 1 ? "MQA" : "own heads or GQA"};
  const MaskSpec& mask = problem.mask;
  if (mask.causal) traits.emplace_back("causal");
  if (mask.window) traits.emplace_back("window");
  if (mask.padding) traits.emplace_back("padding");
  if (mask.blocks) traits.emplace_back("pattern");
  if (problem.softmax_scale != 0.0) traits.emplace_back("scale");
  const Lengths& lengths = problem.lengths;
  for (const auto& [name, list] :
       {std::pair{"rows", &lengths.queries}, std::pair{"keys", &lengths.keys}}) {
    for (const std::int64_t length : {0, 1}) {
      if (std::ranges::find(*list, length) == list->end()) continue;
      traits.push_back(fmt::format("an entry of {} {}", length, name));
    }
  }
  return traits;
}

TEST(DrawE4m3Problem, HasEveryScaleMaskLayoutAndKindOfInputs) {
  std::map<std::string, int> seen;
  constexpr int kProblems = 2000;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem drawn = draw_e4m3_problem(3, i, 4224);
    const Problem& problem = drawn.problem;
    ASSERT_EQ(invalid(problem), "") << problem.id();
    EXPECT_EQ(problem.dtype, Dtype::e4m3);
    EXPECT_EQ(problem.dropout, 0.0);
    EXPECT_EQ(problem.head_dim % 16, 0);
    EXPECT_LE(problem.batch * problem.num_heads_q * problem.seqlen_q * problem.seqlen_k, kMostPairs)
        << problem.id();
    for (const std::string& trait : traits_of(drawn)) ++seen[trait];
  }
  for (const auto& [what, count] : seen) EXPECT_GE(count, kProblems / 100) << what;
  const auto names_of = [&](const std::string& prefix) {
    return std::ranges::count_if(seen,
                                 [&](const auto& item) { return item.first.starts_with(prefix); });
  };
  EXPECT_EQ(names_of("tensor ") + names_of("head ") + names_of("block "), 3 * 4);
  EXPECT_EQ(names_of("rotate "), 2);
  EXPECT_EQ(names_of("kind "), 9) << "all but that of a file";
  EXPECT_EQ(names_of("head_dim "), 16);
  EXPECT_EQ(names_of("groups of "), 8);
  EXPECT_EQ(names_of("blocks of "), 2 * 4);
  EXPECT_EQ(names_of("an entry of "), 4);
  for (const char* name : {"bshd", "bhsd", "packed", "causal", "window", "padding", "pattern",
                           "equal", "unequal", "MQA", "scale"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST(DrawE4m3Problem, DependsOnSeedAndNumberAlone) {
  EXPECT_EQ(draw_e4m3_problem(3, 5, 4224).problem, draw_e4m3_problem(3, 5, 4224).problem);
  EXPECT_NE(draw_e4m3_problem(3, 5, 4224).problem, draw_e4m3_problem(3, 6, 4224).problem);
  EXPECT_NE(draw_e4m3_problem(3, 5, 4224).problem, draw_e4m3_problem(4, 5, 4224).problem);
  EXPECT_NE(draw_e4m3_problem(3, 5, 4224).seed, draw_problem(3, 5, 4224).seed);
  EXPECT_LE(draw_e4m3_problem(3, 5, 40).problem.seqlen_k, 40);
}

// A command that makes a failure again, in a record of what was verified, names a seed and a
// number.
TEST(DrawProblem, SeedsKeepTheirProblems) {
  EXPECT_EQ(draw_problem(7, 13, 65536).problem.id(),
            "fwd/bf16/b4/hq2/hkv2/sq160/sk68/d128/causal/p0.223907/bshd");
  EXPECT_EQ(
      draw_e4m3_problem(7, 13, 65536).problem.id(),
      "fwd/e4m3/b2/hq21/hkv3/sq85/sk85/d128/causal+blocks:butterfly:64x64/p0/bhsd/head-channel");
}

// No more problems are drawn than by default.
TEST(DrawProblem, FourSeedsHaveEveryMultipleOfEight) {
  std::set<std::int64_t> head_dims;
  for (std::uint64_t seed = 7; seed < 11; ++seed) {
    for (std::int64_t index = 0; index < kDefaultRandom; ++index) {
      head_dims.insert(draw_problem(seed, index, 4224).problem.head_dim);
    }
  }
  for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8) {
    EXPECT_TRUE(head_dims.contains(head_dim)) << head_dim;
  }
}

TEST(DrawProblem, KernelsOfOneHeadDimAreFew) {
  std::set<std::int64_t> head_dims;
  for (std::int64_t index = 0; index < 5000; ++index) {
    head_dims.insert(draw_problem(1, index, 4224).problem.head_dim);
  }
  EXPECT_LE(head_dims.size(), 24u);
  EXPECT_TRUE(head_dims.contains(1) && head_dims.contains(256));
}

TEST(DrawConfig, CoversTheRangesOfTheAxes) {
  std::map<std::string, std::set<std::int64_t>> values;
  const Problem problem = {.seqlen_q = 100, .seqlen_k = 100};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Config config = draw_config(fake::kTiled, problem, seed);
    EXPECT_EQ(invalid(config, fake::kTiled), "");
    for (const auto& [name, value] : config.values()) values[name].insert(value);
  }
  EXPECT_EQ(values["stages"].size(), 4u);
  EXPECT_GT(values["block_m"].size(), 60u);
  EXPECT_LT(*values["block_m"].begin(), 20);
  EXPECT_GT(*values["block_m"].rbegin(), 220);
}

// Returns the configs that are drawn for a problem of a kernel that is compiled for them.
std::set<std::string> compiled_configs(const Problem& problem) {
  static constexpr ConfigAxis kAxes[] = {{"block_m", "query rows", 0, 0, 256},
                                         {"stages", "tiles in flight", 0, 0, 4},
                                         {"deterministic", "1: in a fixed order", 0, 0, 1}};
  Implementation kernel = fake::kOwn;
  kernel.axes = kAxes;
  kernel.num_axes = 3;
  kernel.units = [](const Problem&, const Config&, const Device&) {
    return std::vector<KernelUnit>();
  };
  kernel.configs_to_verify = [] {
    return std::vector<ConfigsToVerify>{
        {.head_dim = 64,
         .dtype = Dtype::bf16,
         .dropout = 0.2,
         .configs = {{{"block_m", 64}, {"stages", 2}}, {{"block_m", 96}}}},
        {.head_dim = 64,
         .dtype = Dtype::f16,
         .configs = {{{"block_m", 64}, {"stages", 2}}, {{"block_m", 16}}}},
        {.head_dim = 64,
         .dtype = Dtype::e4m3,
         .quantisation = {.qk = ScaleOf::head},
         .configs = {{{"block_m", 192}}}}};
  };
  std::set<std::string> configs;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    configs.insert(draw_config(kernel, problem, seed).to_string());
  }
  return configs;
}

TEST(DrawConfig, WhatIsCompiledIsCompiledForFewConfigs) {
  for (const Problem& problem :
       {Problem{.dtype = Dtype::f16, .head_dim = 80}, Problem{.dtype = Dtype::f32, .head_dim = 64},
        Problem{.dtype = Dtype::bf16, .head_dim = 128, .dropout = 0.5}}) {
    EXPECT_EQ(compiled_configs(problem),
              (std::set<std::string>{"block_m=0,stages=0,deterministic=0",
                                     "block_m=0,stages=0,deterministic=1"}))
        << problem.id();
  }
}

// The kernel's own choices are among them, too.
TEST(DrawConfig, WhatIsCompiledHasTheTilesOfTheFixedShapes) {
  const auto configs = compiled_configs({.dtype = Dtype::bf16, .head_dim = 64, .dropout = 0.5});
  for (const char* config :
       {"block_m=0,stages=0,deterministic=0", "block_m=64,stages=2,deterministic=0",
        "block_m=64,stages=2,deterministic=1", "block_m=96,stages=0,deterministic=0"}) {
    EXPECT_TRUE(configs.contains(config)) << config;
  }
  EXPECT_EQ(configs.size(), 6U);
}

TEST(DrawConfig, TilesThatTakeNoScalesOfBlocksAreForProblemsWithout) {
  Problem problem = {.dtype = Dtype::e4m3, .head_dim = 64};
  const auto has_the_tile = [&] {
    return compiled_configs(problem).contains("block_m=192,stages=0,deterministic=0");
  };
  EXPECT_FALSE(has_the_tile());
  problem.quantisation = {.qk = ScaleOf::tensor, .v = ScaleOf::head};
  EXPECT_TRUE(has_the_tile());
  problem.quantisation.v = ScaleOf::block;
  EXPECT_FALSE(has_the_tile());
}

TEST(DrawConfig, ProductsOfE4m3ArePromotedOrNot) {
  static constexpr ConfigAxis kAxes[] = {
      {"overlap", "1: beside the softmax", -1, -1, 1},
      {"promote", "1: sums in fp32", -1, -1, 1, {}, AxisRole::promotes}};
  Implementation kernel = fake::kOwn;
  kernel.axes = kAxes;
  kernel.num_axes = 2;
  kernel.units = [](const Problem&, const Config&, const Device&) {
    return std::vector<KernelUnit>();
  };
  const auto drawn = [&](Dtype dtype) {
    std::set<std::string> configs;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      configs.insert(draw_config(kernel, {.dtype = dtype, .head_dim = 64}, seed).to_string());
    }
    return configs;
  };
  EXPECT_EQ(drawn(Dtype::f16), std::set<std::string>{"overlap=-1,promote=-1"});
  EXPECT_EQ(drawn(Dtype::e4m3),
            (std::set<std::string>{"overlap=-1,promote=-1", "overlap=-1,promote=0",
                                   "overlap=-1,promote=1"}));
}

TEST(DrawConfig, TilesAreNotTooManyForSumsInFp32) {
  const Problem problem = {.seqlen_q = 10, .seqlen_k = 4224};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    EXPECT_GE(draw_config(fake::kTiled, problem, seed).get("block_n"), 32);
  }
  const Problem compiled = {.dtype = Dtype::f16, .seqlen_q = 4224, .seqlen_k = 10, .head_dim = 64};
  const std::set<std::string> configs = compiled_configs(compiled);
  EXPECT_TRUE(configs.contains("block_m=64,stages=2,deterministic=0"));
  EXPECT_FALSE(configs.contains("block_m=16,stages=0,deterministic=0"));
}

}  // namespace
}  // namespace attnlab::verify
