// The traffic model is the schedule itself: what a launch counted equals what count-only mode says,
// for every kernel of the CPU backend, every pass and every kind of problem. Closed forms are
// tested beside each kernel.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/registry.h"
#include "kernels/cpu/backend.h"

namespace attnlab {
namespace {

// Memory holds a problem's tensors, whose values do not matter, in the widest type.
class Memory {
 public:
  explicit Memory(const Problem& problem)
      : q_(floats(problem.elements_q(), 0.5f)),
        k_(floats(problem.elements_k(), 0.25f)),
        o_(q_),
        dq_(q_),
        dk_(k_),
        dv_(k_),
        lse_(floats(problem.elements_lse(), 0.0f)),
        pattern_(make_block_pattern(problem)) {}

  Tensors tensors() {
    return {.q = q_.data(),
            .k = k_.data(),
            .v = k_.data(),
            .o = o_.data(),
            .lse = lse_.data(),
            .dout = q_.data(),
            .dq = dq_.data(),
            .dk = dk_.data(),
            .dv = dv_.data(),
            .block_pattern = pattern_.data()};
  }

 private:
  static std::vector<float> floats(i64 count, float value) {
    return std::vector<float>(static_cast<std::size_t>(count) + 1, value);
  }
  std::vector<float> q_, k_, o_, dq_, dk_, dv_, lse_;
  std::vector<std::uint8_t> pattern_;
};

// Returns what two launches counted; they must agree, as counts belong to one launch.
Traffic executed(const Implementation& kernel, const Problem& problem, const Config& config) {
  Device device = cpu::cpu_device();
  device.threads = 3;
  Memory memory(problem);
  std::vector<std::byte> workspace(kernel.workspace_bytes(problem, config, device) + 1);
  std::vector<std::byte> saved(kernel.saved_bytes(problem, config) + 1);
  Tensors tensors = memory.tensors();
  tensors.workspace = workspace.data();
  tensors.workspace_bytes = workspace.size() - 1;
  if (problem.pass != Pass::fwd) tensors.saved = saved.data();
  PreparedKernel* prepared = kernel.prepare(problem, config, device);
  kernel.launch(prepared, tensors, nullptr);
  const Traffic first = static_cast<cpu::Prepared*>(prepared)->executed();
  kernel.launch(prepared, tensors, nullptr);
  const Traffic second = static_cast<cpu::Prepared*>(prepared)->executed();
  kernel.release(prepared);
  EXPECT_EQ(first, second);
  return second;
}

Problem make_problem(i64 seqlen_q, i64 seqlen_k, const char* mask) {
  Problem problem = {.batch = 3,
                     .num_heads_q = 4,
                     .num_heads_kv = 2,
                     .seqlen_q = seqlen_q,
                     .seqlen_k = seqlen_k,
                     .head_dim = 24,
                     .mask = parse_mask(mask)};
  if (problem.mask.padding) {
    problem.lengths = {.kind = LengthsKind::padding, .keys = {seqlen_k, seqlen_k / 3, 0}};
  }
  return problem;
}

class TrafficTest : public testing::TestWithParam<const Implementation*> {
 protected:
  // Compares the model with an execution, for every pass that the kernel has.
  void check(Problem problem) {
    const Implementation& kernel = *GetParam();
    Config config = default_config(kernel);
    if (config.contains("block_m")) {
      config.set("block_m", 16);
      config.set("block_n", 24);
    }
    for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
      problem.pass = pass;
      ASSERT_EQ(invalid(problem), "");
      if (!kernel.unsupported(problem, config, cpu::cpu_device()).empty()) continue;
      ++checked_;
      const Traffic model = kernel.traffic(problem, config);
      EXPECT_EQ(model, executed(kernel, problem, config)) << kernel.name << " " << problem.id();
      EXPECT_GT(model.read_bytes(), 0);
    }
  }

  int checked_ = 0;
};

std::vector<const Implementation*> cpu_kernels() {
  std::vector<const Implementation*> kernels;
  for (const Implementation* kernel : builtin_registry().all()) {
    if (kernel->backend == Backend::cpu) kernels.push_back(kernel);
  }
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(Kernel, TrafficTest, testing::ValuesIn(cpu_kernels()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST_P(TrafficTest, CountOnlyEqualsExecution) {
  for (const char* mask :
       {"none", "causal", "window:20:7", "padding", "causal+padding", "blocks:butterfly:16x8",
        "causal+blocks:butterfly:8x24", "blocks:bigbird:1:1:1:16x24"}) {
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{100L, 100L}, {33L, 90L}, {90L, 33L}}) {
      const Problem problem = make_problem(seqlen_q, seqlen_k, mask);
      if (seqlen_q == seqlen_k || !problem.mask.blocks) check(problem);
    }
  }
  EXPECT_GE(checked_, 18);
}

TEST_P(TrafficTest, CountOnlyEqualsExecutionOfEveryTypeLayoutAndDropout) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const double dropout : {0.0, 0.2}) {
      Problem problem = make_problem(70, 70, "causal");
      problem.dtype = dtype;
      problem.dropout = dropout;
      check(problem);
      problem.layout = Layout::packed;
      problem.lengths = {.kind = LengthsKind::packed, .queries = {70, 0, 31}, .keys = {55, 70, 0}};
      check(problem);
    }
  }
  EXPECT_GE(checked_, 4);
}

// Takes 64K sequences of 16 heads: the model costs milliseconds, since equal slices are counted
// once and no element is touched.
TEST_P(TrafficTest, LongSequencesAreCountedQuickly) {
  const Implementation& kernel = *GetParam();
  for (const Pass pass : {Pass::fwd, Pass::fwdbwd}) {
    Problem problem = {.pass = pass,
                       .batch = 4,
                       .num_heads_q = 16,
                       .num_heads_kv = 16,
                       .seqlen_q = 1 << 16,
                       .seqlen_k = 1 << 16,
                       .head_dim = 64,
                       .mask = parse_mask("causal")};
    const Config config = default_config(kernel);
    if (!kernel.unsupported(problem, config, cpu::cpu_device()).empty()) continue;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_GT(kernel.traffic(problem, config).read_bytes(), i64{1} << 30);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    RecordProperty(to_string(pass), std::to_string(seconds.count()));
    EXPECT_LT(seconds.count(), 2.0) << "count-only mode is not O(tiles)";
  }
}

}  // namespace
}  // namespace attnlab
