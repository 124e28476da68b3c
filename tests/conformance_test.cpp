// Every registered implementation against the oracle, through the registry alone: odd shapes,
// unequal lengths, masks, GQA, layouts, head dims, block sizes, instruction sets. Outputs and
// workspaces start as NaN between guards, so what is not written, or written outside, fails.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/api/registry.h"
#include "reference/tolerance.h"

namespace attnlab {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kGuard = 512;

// A float buffer between guards.
class Guarded {
 public:
  explicit Guarded(std::int64_t count)
      : values_(static_cast<std::size_t>(count) + 2 * kGuard + kAlign, kNan) {}
  float* data() {
    void* place = values_.data() + kGuard;
    std::size_t space = (values_.size() - kGuard) * sizeof(float);
    return static_cast<float*>(std::align(256, 1, place, space));
  }
  // True if nothing but the `count` elements was written.
  bool guards_hold(std::int64_t count) {
    const float* begin = data();
    for (const float* p = values_.data(); p < values_.data() + values_.size(); ++p) {
      if (p >= begin && p < begin + count) continue;
      if (!std::isnan(*p)) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kAlign = 64;
  std::vector<float> values_;
};

struct Inputs {
  Inputs(const Problem& problem, std::uint32_t seed)
      : q(problem.elements_q()), k(problem.elements_k()), v(problem.elements_k()) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (auto [buffer, count] : {std::pair{&q, problem.elements_q()},
                                 {&k, problem.elements_k()},
                                 {&v, problem.elements_k()}}) {
      for (std::int64_t i = 0; i < count; ++i) buffer->data()[i] = normal(generator);
    }
    pattern = make_block_pattern(problem);
  }
  Guarded q, k, v;
  std::vector<std::uint8_t> pattern;
};

struct Outcome {
  std::vector<float> o, lse;
  std::string failure;  // empty: the oracle agrees
};

Outcome run(const Implementation& kernel, const Problem& problem, const Config& config,
            const Device& device, Inputs& inputs,
            const std::vector<reference::ForwardReference>& references) {
  Guarded o(problem.elements_q()), lse(problem.elements_lse());
  const std::uint64_t workspace_bytes = kernel.workspace_bytes(problem, config, device);
  const std::int64_t workspace_floats = static_cast<std::int64_t>((workspace_bytes + 3) / 4);
  Guarded workspace(workspace_floats);
  Tensors tensors;
  tensors.q = inputs.q.data();
  tensors.k = inputs.k.data();
  tensors.v = inputs.v.data();
  tensors.o = o.data();
  tensors.lse = lse.data();
  tensors.block_pattern = inputs.pattern.data();
  tensors.workspace = workspace.data();
  tensors.workspace_bytes = workspace_bytes;
  PreparedKernel* prepared = kernel.prepare(problem, config, device);
  kernel.launch(prepared, tensors, nullptr);
  kernel.release(prepared);

  Outcome result;
  const std::string name = std::string(kernel.name) + " " + config.to_string() + " " + device.isa +
                           " " + problem.id() + ": ";
  for (const auto& verdict : reference::judge_forward(problem, tensors, references)) {
    if (!verdict.pass) result.failure = name + verdict.tensor + ": " + verdict.message;
  }
  if (!o.guards_hold(problem.elements_q())) result.failure = name + "wrote outside o";
  if (!lse.guards_hold(problem.elements_lse())) result.failure = name + "wrote outside lse";
  if (!workspace.guards_hold(workspace_floats)) result.failure = name + "wrote outside workspace";
  result.o.assign(o.data(), o.data() + problem.elements_q());
  result.lse.assign(lse.data(), lse.data() + problem.elements_lse());
  return result;
}

std::vector<reference::ForwardReference> references_of(const Problem& problem, Inputs& inputs) {
  Tensors tensors;
  tensors.q = inputs.q.data();
  tensors.k = inputs.k.data();
  tensors.v = inputs.v.data();
  const auto samples = reference::choose_samples(problem, std::int64_t{1} << 23, 11);
  return reference::forward_reference(problem, tensors, samples, 2);
}

Problem make_problem(std::int64_t seqlen_q, std::int64_t seqlen_k, const std::string& mask,
                     std::int64_t head_dim = 16) {
  Problem problem;
  problem.num_heads_q = 2;
  problem.num_heads_kv = 1;
  problem.seqlen_q = seqlen_q;
  problem.seqlen_k = seqlen_k;
  problem.head_dim = head_dim;
  problem.mask = parse_mask(mask);
  if (problem.mask.padding) {
    problem.batch = 3;
    problem.lengths = {.kind = LengthsKind::padding, .keys = {seqlen_k, (seqlen_k + 1) / 2, 0}};
  }
  return problem;
}

Config blocks(const Implementation& kernel, std::int64_t block_m, std::int64_t block_n) {
  Config config = default_config(kernel);
  if (config.contains("block_m")) config.set("block_m", block_m);
  if (config.contains("block_n")) config.set("block_n", block_n);
  return config;
}

class ConformanceTest : public testing::TestWithParam<const Implementation*> {
 protected:
  // Judges one problem with the kernel's defaults and with small, uneven tiles.
  void check(const Problem& problem, std::uint32_t seed = 1) {
    const Implementation& kernel = *GetParam();
    ASSERT_EQ(invalid(problem), "");
    ASSERT_EQ(kernel.unsupported(problem, default_config(kernel), device_), "") << problem.id();
    Inputs inputs(problem, seed);
    const auto references = references_of(problem, inputs);
    for (const Config& config : {default_config(kernel), blocks(kernel, 48, 17)}) {
      const Outcome result = run(kernel, problem, config, device_, inputs, references);
      EXPECT_EQ(result.failure, "");
      if (default_config(kernel) == blocks(kernel, 48, 17)) break;
    }
  }

  Device device_ = available_devices().back();
};

INSTANTIATE_TEST_SUITE_P(Kernel, ConformanceTest,
                         testing::ValuesIn(builtin_registry().all().begin(),
                                           builtin_registry().all().end()),
                         [](const auto& param) {
                           return std::string(param.param->name) + "_" +
                                  to_string(param.param->backend);
                         });

const std::vector<std::int64_t> kOddLengths = {1,   2,    3,    63,   64,   65,   97,  113,
                                               127, 128,  129,  200,  239,  257,  511, 512,
                                               799, 1023, 1024, 1025, 2048, 4096, 4224};

TEST_P(ConformanceTest, OddLengths) {
  for (const std::int64_t seqlen : kOddLengths) {
    for (const char* mask : {"none", "causal"}) check(make_problem(seqlen, seqlen, mask));
  }
}

TEST_P(ConformanceTest, UnequalLengthsUnderEveryMask) {
  for (const char* mask : {"none", "causal", "window:17:0", "window:0:33", "window:-1:5",
                           "window:40:-1", "padding", "padding+causal", "window:9:9+padding"}) {
    for (const auto& [seqlen_q, seqlen_k] :
         {std::pair{1L, 257L}, {257L, 1L}, {65L, 200L}, {200L, 65L}, {128L, 512L}, {511L, 97L}}) {
      check(make_problem(seqlen_q, seqlen_k, mask));
    }
  }
}

TEST_P(ConformanceTest, BlockPatterns) {
  for (const char* mask : {"blocks:butterfly:16x16", "blocks:butterfly:32x24",
                           "blocks:butterfly:64x7", "causal+blocks:butterfly:16x16",
                           "window:50:3+blocks:butterfly:16x8", "padding+blocks:butterfly:32x32"}) {
    for (const std::int64_t seqlen : {1, 31, 200, 513}) check(make_problem(seqlen, seqlen, mask));
  }
}

TEST_P(ConformanceTest, EveryHeadDim) {
  for (std::int64_t head_dim = 1; head_dim <= 256; head_dim += head_dim < 72 ? 1 : 23) {
    check(make_problem(33, 50, "causal", head_dim));
  }
  check(make_problem(65, 129, "none", 256));
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
      check(problem);
    }
  }
}

TEST_P(ConformanceTest, LargeLogitsAndConstantScores) {
  const Implementation& kernel = *GetParam();
  for (const float factor : {0.0f, 30.0f}) {
    const Problem problem = make_problem(65, 130, "none", 32);
    Inputs inputs(problem, 5);
    for (std::int64_t i = 0; i < problem.elements_q(); ++i) inputs.q.data()[i] *= factor;
    const auto references = references_of(problem, inputs);
    EXPECT_EQ(run(kernel, problem, default_config(kernel), device_, inputs, references).failure,
              "");
  }
}

TEST_P(ConformanceTest, EveryTileSize) {
  const Implementation& kernel = *GetParam();
  const Problem problem = make_problem(150, 170, "causal", 40);
  Inputs inputs(problem, 3);
  const auto references = references_of(problem, inputs);
  for (const std::int64_t block_m : {1, 16, 30, 64, 128, 200}) {
    for (const std::int64_t block_n : {1, 16, 50, 64, 128, 256}) {
      const Config config = blocks(kernel, block_m, block_n);
      EXPECT_EQ(run(kernel, problem, config, device_, inputs, references).failure, "");
    }
  }
}

TEST_P(ConformanceTest, ThreadsDoNotChangeABit) {
  const Implementation& kernel = *GetParam();
  if (kernel.backend != Backend::cpu) GTEST_SKIP() << "threads are a property of CPU devices";
  const Problem problem = make_problem(300, 280, "causal", 40);
  Inputs inputs(problem, 4);
  const auto references = references_of(problem, inputs);
  Device device = device_;
  device.threads = 1;
  const Outcome one = run(kernel, problem, default_config(kernel), device, inputs, references);
  EXPECT_EQ(one.failure, "");
  for (int repeat = 0; repeat < 10; ++repeat) {
    device.threads = 2 + repeat % 3;
    const Outcome many = run(kernel, problem, default_config(kernel), device, inputs, references);
    ASSERT_EQ(std::memcmp(one.o.data(), many.o.data(), one.o.size() * sizeof(float)), 0);
    ASSERT_EQ(std::memcmp(one.lse.data(), many.lse.data(), one.lse.size() * sizeof(float)), 0);
  }
}

// Keys that the mask hides may hold anything finite: the outputs stay the same to the last bit.
TEST_P(ConformanceTest, HiddenKeysDoNotMatter) {
  const Implementation& kernel = *GetParam();
  const Problem problem = make_problem(60, 90, "padding", 16);
  Inputs inputs(problem, 6);
  const auto references = references_of(problem, inputs);
  const Outcome before = run(kernel, problem, default_config(kernel), device_, inputs, references);
  EXPECT_EQ(before.failure, "");
  const Shape shape = make_shape(problem);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t c = problem.keys(b); c < problem.seqlen_k; ++c) {
      for (std::int64_t x = 0; x < problem.head_dim; ++x) {
        inputs.k.data()[shape.k.offset(b, 0, c) + x] = 3e4f;
        inputs.v.data()[shape.k.offset(b, 0, c) + x] = -7e7f;
      }
    }
  }
  const Outcome after = run(kernel, problem, default_config(kernel), device_, inputs, references);
  EXPECT_EQ(std::memcmp(before.o.data(), after.o.data(), before.o.size() * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(before.lse.data(), after.lse.data(), before.lse.size() * sizeof(float)), 0);
}

// Each instruction set of the CPU backend, also those that this processor would not choose.
TEST_P(ConformanceTest, EveryInstructionSet) {
  const Implementation& kernel = *GetParam();
  if (kernel.backend != Backend::cpu) GTEST_SKIP() << "instruction sets belong to CPU devices";
  int tried = 0;
  for (const char* isa : {"avx512", "avx2", "sse4", "sse2", "neon", "portable"}) {
    const Problem problem = make_problem(97, 113, "causal", 20);
    Device device = device_;
    device.isa = isa;
    if (!kernel.unsupported(problem, default_config(kernel), device).empty()) continue;
    Inputs inputs(problem, 2);
    const auto references = references_of(problem, inputs);
    EXPECT_EQ(run(kernel, problem, default_config(kernel), device, inputs, references).failure, "");
    ++tried;
  }
  EXPECT_GE(tried, 1);
}

}  // namespace
}  // namespace attnlab
