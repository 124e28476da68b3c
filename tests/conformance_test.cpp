// Every registered implementation against the oracle, through the registry alone: odd shapes,
// unequal lengths, masks, dropout, packed batches, GQA, layouts, types, head dims, tile sizes,
// instruction sets, forward and backward. Outputs and workspaces start as NaN between guards, so
// what is not written, or written outside, fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernel_run.h"

namespace attnlab {
namespace {

using testing_support::Inputs;
using testing_support::Outcome;

Problem make_problem(std::int64_t seqlen_q, std::int64_t seqlen_k, const std::string& mask,
                     std::int64_t head_dim = 16) {
  Problem problem = {.num_heads_q = 2,
                     .num_heads_kv = 1,
                     .seqlen_q = seqlen_q,
                     .seqlen_k = seqlen_k,
                     .head_dim = head_dim,
                     .mask = parse_mask(mask),
                     .seed = 5};
  if (problem.mask.padding) {
    problem.batch = 3;
    problem.lengths = {.kind = LengthsKind::padding, .keys = {seqlen_k, (seqlen_k + 1) / 2, 0}};
  }
  return problem;
}

Problem make_packed(std::vector<std::int64_t> queries, std::vector<std::int64_t> keys,
                    const std::string& mask) {
  Problem problem = make_problem(*std::max_element(queries.begin(), queries.end()),
                                 *std::max_element(keys.begin(), keys.end()), mask);
  problem.batch = static_cast<std::int64_t>(queries.size());
  problem.layout = Layout::packed;
  problem.lengths = {
      .kind = LengthsKind::packed, .queries = std::move(queries), .keys = std::move(keys)};
  return problem;
}

class ConformanceTest : public testing::TestWithParam<std::tuple<const Implementation*, Dtype>> {
 protected:
  const Implementation& kernel() const { return *std::get<0>(GetParam()); }

  // The kernel's defaults, and small, uneven tiles if it has tiles.
  std::vector<Config> configs() const {
    std::vector<Config> result = {default_config(kernel())};
    if (kernel_has_blocks()) result.push_back(with_blocks(48, 17));
    return result;
  }

  bool kernel_has_blocks() const { return default_config(kernel()).contains("block_m"); }

  Config with_blocks(std::int64_t block_m, std::int64_t block_n) const {
    Config config = default_config(kernel());
    config.set("block_m", block_m);
    config.set("block_n", block_n);
    return config;
  }

  // The passes that judge most in one go: forward with backward, or what there is of it.
  bool is_supported(const Problem& problem) const {
    return kernel().unsupported(problem, default_config(kernel()), device_).empty();
  }

  // Judges one problem forward and backward in one launch (forward alone where the kernel has no
  // backward), with every config; and with `alone`, each pass in a launch of its own.
  void check(Problem problem, bool alone = false, std::uint32_t seed = 1) {
    problem.dtype = std::get<1>(GetParam());
    ASSERT_EQ(invalid(problem), "");
    problem.pass = Pass::fwdbwd;
    if (!is_supported(problem)) problem.pass = Pass::fwd;
    if (!is_supported(problem)) return;
    ++checked_;
    Inputs inputs(problem, seed);
    const auto references = testing_support::make_references(problem, inputs);
    for (const Config& config : configs()) {
      EXPECT_EQ(run(kernel(), problem, config, device_, inputs, references).failure, "");
    }
    if (!alone || problem.pass == Pass::fwd) return;
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      problem.pass = pass;
      const auto part = testing_support::make_references(problem, inputs);
      EXPECT_EQ(run(kernel(), problem, default_config(kernel()), device_, inputs, part).failure,
                "");
    }
  }

  // A kernel may lack a type as a whole (minimal is fp32 only); then nothing is checked and the
  // test says so. Else everything must have been checked.
  void expect_checked(int problems) const {
    if (checked_ == 0) {
      GTEST_SKIP() << kernel().unsupported({.dtype = std::get<1>(GetParam())},
                                           default_config(kernel()), device_);
    }
    EXPECT_EQ(checked_, problems);
  }

  Device device_ = available_devices().back();
  int checked_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kernel, ConformanceTest,
                         testing::Combine(testing::ValuesIn(builtin_registry().all().begin(),
                                                            builtin_registry().all().end()),
                                          testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16)),
                         [](const auto& param) {
                           const Implementation& kernel = *std::get<0>(param.param);
                           return std::string(kernel.name) + "_" + to_string(kernel.backend) + "_" +
                                  to_string(std::get<1>(param.param));
                         });

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kLongest = 1025;  // sanitizers make the oracle ten times slower
#else
constexpr std::int64_t kLongest = 4224;
#endif

std::vector<std::int64_t> odd_lengths() {
  std::vector<std::int64_t> lengths = {1,   2,    3,    63,   64,   65,   97,  113,
                                       127, 128,  129,  200,  239,  257,  511, 512,
                                       799, 1023, 1024, 1025, 2048, 4096, 4224};
  std::erase_if(lengths, [](std::int64_t seqlen) { return seqlen > kLongest; });
  return lengths;
}

TEST_P(ConformanceTest, OddLengths) {
  for (const std::int64_t seqlen : odd_lengths()) {
    for (const char* mask : {"none", "causal"}) {
      check(make_problem(seqlen, seqlen, mask), seqlen <= 257);
    }
  }
  expect_checked(2 * static_cast<int>(odd_lengths().size()));
}

TEST_P(ConformanceTest, UnequalLengthsUnderEveryMask) {
  for (const char* mask : {"none", "causal", "window:17:0", "window:0:33", "window:-1:5",
                           "window:40:-1", "padding", "padding+causal", "window:9:9+padding"}) {
    for (const auto& [seqlen_q, seqlen_k] :
         {std::pair{1L, 257L}, {257L, 1L}, {65L, 200L}, {200L, 65L}, {128L, 512L}, {511L, 97L}}) {
      check(make_problem(seqlen_q, seqlen_k, mask));
    }
  }
  expect_checked(9 * 6);
}

TEST_P(ConformanceTest, BlockPatterns) {
  for (const char* mask :
       {"blocks:butterfly:16x16", "blocks:local:1:32x24", "blocks:strided:1:4:64x7",
        "blocks:longformer:1:1:16x24", "blocks:bigbird:1:1:2:16x16", "blocks:random:20:32x8",
        "causal+blocks:butterfly:16x16", "window:50:3+blocks:bigbird:1:1:1:16x8",
        "padding+blocks:local:0:32x32"}) {
    for (const std::int64_t seqlen : {1, 31, 200, 513}) check(make_problem(seqlen, seqlen, mask));
  }
  expect_checked(9 * 4);
}

TEST_P(ConformanceTest, Dropout) {
  for (const double dropout : {0.1, 0.5, 0.99}) {
    for (const char* mask : {"none", "causal", "padding", "blocks:butterfly:16x16"}) {
      for (const std::int64_t seqlen : {1, 33, 150, 300}) {
        Problem problem = make_problem(seqlen, seqlen, mask, 24);
        problem.dropout = dropout;
        check(problem, seqlen == 33);
      }
    }
  }
  expect_checked(3 * 4 * 4);
}

TEST_P(ConformanceTest, PackedBatches) {
  for (const char* mask : {"none", "causal", "window:20:5", "blocks:local:1:16x16"}) {
    for (const double dropout : {0.0, 0.2}) {
      const bool pattern = std::string(mask).starts_with("blocks");
      Problem problem = pattern ? make_packed({70, 1, 129, 0, 31}, {70, 1, 129, 0, 31}, mask)
                                : make_packed({70, 0, 129, 40, 31}, {55, 70, 200, 0, 31}, mask);
      problem.dropout = dropout;
      check(problem, true);
    }
  }
  expect_checked(8);
}

TEST_P(ConformanceTest, EveryHeadDim) {
  int problems = 1;
  for (std::int64_t head_dim = 1; head_dim <= 256; head_dim += head_dim < 72 ? 1 : 23) {
    check(make_problem(33, 50, "causal", head_dim));
    ++problems;
  }
  check(make_problem(65, 129, "none", 256));
  expect_checked(problems);
}

TEST_P(ConformanceTest, HeadsBatchesAndLayouts) {
  for (const Layout layout : {Layout::bshd, Layout::bhsd}) {
    for (const std::int64_t heads_kv : {8, 2, 1}) {
      Problem problem = make_problem(70, 90, "causal", 24);
      problem.batch = 3;
      problem.num_heads_q = 8;
      problem.num_heads_kv = heads_kv;
      problem.layout = layout;
      problem.softmax_scale = heads_kv == 2 ? 0.37 : 0.0;
      check(problem, true);
    }
  }
  expect_checked(6);
}

TEST_P(ConformanceTest, LargeLogitsAndConstantScores) {
  for (const float factor : {0.0f, 8.0f, 30.0f}) {
    Problem problem = make_problem(65, 130, "none", 32);
    problem.dtype = std::get<1>(GetParam());
    problem.pass = Pass::fwdbwd;
    if (!is_supported(problem)) problem.pass = Pass::fwd;
    if (!is_supported(problem)) continue;
    ++checked_;
    Inputs inputs(problem, 5, factor);
    const auto references = testing_support::make_references(problem, inputs);
    EXPECT_EQ(run(kernel(), problem, default_config(kernel()), device_, inputs, references).failure,
              "");
  }
  expect_checked(3);
}

// What does not depend on the type: once, in fp32.
class ConformanceF32Test : public ConformanceTest {
 protected:
  // A problem with as many passes as the kernel has.
  Problem widest(Problem problem) const {
    problem.pass = Pass::fwdbwd;
    if (!is_supported(problem)) problem.pass = Pass::fwd;
    return problem;
  }

  // Sums of dQ in a fixed order, where the kernel has a choice.
  Config deterministic() const {
    Config config = default_config(kernel());
    if (config.contains("deterministic")) config.set("deterministic", 1);
    return config;
  }
};

INSTANTIATE_TEST_SUITE_P(Kernel, ConformanceF32Test,
                         testing::Combine(testing::ValuesIn(builtin_registry().all().begin(),
                                                            builtin_registry().all().end()),
                                          testing::Values(Dtype::f32)),
                         [](const auto& param) {
                           const Implementation& kernel = *std::get<0>(param.param);
                           return std::string(kernel.name) + "_" + to_string(kernel.backend);
                         });

TEST_P(ConformanceF32Test, EveryTileSize) {
  if (!kernel_has_blocks()) GTEST_SKIP() << "has no tiles to choose";
  Problem problem = widest(make_problem(150, 170, "causal", 40));
  problem.dropout = 0.2;
  Inputs inputs(problem, 3);
  const auto references = testing_support::make_references(problem, inputs);
  for (const std::int64_t block_m : {1, 16, 30, 64, 128, 200}) {
    for (const std::int64_t block_n : {1, 16, 50, 64, 128, 256}) {
      const Config config = with_blocks(block_m, block_n);
      EXPECT_EQ(run(kernel(), problem, config, device_, inputs, references).failure, "");
    }
  }
}

TEST_P(ConformanceF32Test, ThreadsDoNotChangeABit) {
  if (kernel().backend != Backend::cpu) GTEST_SKIP() << "threads are a property of CPU devices";
  Problem problem = widest(make_problem(300, 280, "causal", 40));
  problem.num_heads_q = 4;
  problem.num_heads_kv = 2;
  problem.dropout = 0.1;
  Inputs inputs(problem, 4);
  const auto references = testing_support::make_references(problem, inputs);
  Device device = device_;
  device.threads = 1;
  const Outcome one = run(kernel(), problem, deterministic(), device, inputs, references);
  EXPECT_EQ(one.failure, "");
  for (int repeat = 0; repeat < 10; ++repeat) {
    device.threads = 2 + repeat % 3;
    const Outcome many = run(kernel(), problem, deterministic(), device, inputs, references);
    ASSERT_EQ(one.outputs, many.outputs);
  }
}

// Keys that the mask hides may hold anything finite: the outputs stay the same to the last bit.
TEST_P(ConformanceF32Test, HiddenKeysDoNotMatter) {
  const Problem problem = widest(make_problem(60, 90, "padding", 16));
  Inputs inputs(problem, 6);
  const auto references = testing_support::make_references(problem, inputs);
  const Outcome before = run(kernel(), problem, deterministic(), device_, inputs, references);
  EXPECT_EQ(before.failure, "");
  const Shape shape = make_shape(problem);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t c = problem.keys(b); c < problem.seqlen_k; ++c) {
      for (std::int64_t x = 0; x < problem.head_dim; ++x) {
        const std::int64_t place = shape.k.offset(b, 0, c) + x;
        testing_support::set_element(problem.dtype, inputs.k.data(), place, 3e4f);
        testing_support::set_element(problem.dtype, inputs.v.data(), place, -7e7f);
      }
    }
  }
  const Outcome after = run(kernel(), problem, deterministic(), device_, inputs, references);
  EXPECT_EQ(before.outputs, after.outputs);
}

// Each instruction set of the CPU backend, also those that this processor would not choose.
TEST_P(ConformanceF32Test, EveryInstructionSet) {
  if (kernel().backend != Backend::cpu) GTEST_SKIP() << "instruction sets belong to CPU devices";
  int tried = 0;
  for (const char* isa : {"avx512", "avx2", "sse4", "sse2", "neon", "portable"}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      Problem problem = make_problem(97, 113, "causal", 20);
      problem.dtype = dtype;
      problem.dropout = 0.3;
      problem = widest(problem);
      Device device = device_;
      device.isa = isa;
      if (!kernel().unsupported(problem, default_config(kernel()), device).empty()) continue;
      Inputs inputs(problem, 2);
      const auto references = testing_support::make_references(problem, inputs);
      EXPECT_EQ(
          run(kernel(), problem, default_config(kernel()), device, inputs, references).failure, "");
      ++tried;
    }
  }
  EXPECT_GE(tried, 1);
}

}  // namespace
}  // namespace attnlab
