// Tests counters and the trace of kernels, on work whose bytes and kernels are known.
#include "kernels/api/counters.h"

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/plan/accounting.h"
#include "harness/tensors/arena.h"
#include "harness/tensors/inputs.h"
#include "kernels/cuda/instruments.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

class GpuCounters : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string reason = counters().why_not(); !reason.empty()) GTEST_SKIP() << reason;
  }

  Counters& counters() { return counters_of(gpu()); }
  CUstream stream() { return static_cast<CUstream>(runtime().queue()); }
  cuda::Instruments& instruments() {
    static cuda::Instruments made(gpu());
    return made;
  }
};

constexpr std::uint64_t kMib = 1 << 20;

TEST_F(GpuCounters, CountACopyAndARead) {
  const CounterCheck& check = counters().check();
  EXPECT_EQ(check.wrong, "");
  std::vector<std::string> counted;
  for (const CounterCheck::Line& line : check.lines) {
    EXPECT_NEAR(line.counted_bytes, line.expected_bytes, 0.02 * line.expected_bytes) << line.what;
    counted.push_back(line.what);
  }
  const std::vector<std::string> all = {"dram read of a copy",
                                        "dram write of a copy",
                                        "multiprocessors' read of a copy",
                                        "L2 read of a copy",
                                        "L2 write of a copy",
                                        "dram read of a read",
                                        "multiprocessors' read of a read",
                                        "L2 read of a read"};
  EXPECT_EQ(counted, all);
}

TEST_F(GpuCounters, WhatStaysInTheL2ReachesNoDram) {
  const std::uint64_t bytes = 16 * kMib;
  void* const data = runtime().allocate(bytes);
  instruments().noise(stream(), data, bytes);
  const HardwareCounts counts = counters().count({.launches = 5, .l2 = L2State::steady}, [&](int) {
    instruments().fingerprint(stream(), data, bytes);
  });
  runtime().release(data);
  const auto all = static_cast<double>(5 * bytes);
  EXPECT_NEAR(counts.sm_read_bytes.value(), all, 0.01 * all);
  EXPECT_NEAR(counts.l2_read_bytes.value(), all, 0.01 * all);
  EXPECT_LT(counts.dram_read_bytes.value(), 0.02 * all);
  EXPECT_LT(counts.dram_write_bytes.value(), 0.02 * all);
}

TEST_F(GpuCounters, ASweptRangeIsColdAndLeavesNothingBehind) {
  const std::uint64_t bytes = 16 * kMib;
  void* const from = runtime().allocate(bytes);
  void* const to = runtime().allocate(bytes);
  instruments().noise(stream(), from, bytes);
  const HardwareCounts counts = counters().count({.launches = 1, .l2 = L2State::swept}, [&](int) {
    instruments().copy(stream(), from, to, bytes);
  });
  runtime().release(from);
  runtime().release(to);
  const auto all = static_cast<double>(bytes);
  EXPECT_NEAR(counts.dram_read_bytes.value(), all, 0.05 * all);
  EXPECT_NEAR(counts.dram_write_bytes.value(), all, 0.05 * all);
}

TEST_F(GpuCounters, ReductionsAreCounted) {
  const std::uint64_t bytes = kMib;
  void* const data = runtime().allocate(bytes);
  instruments().noise(stream(), data, bytes);
  const HardwareCounts counts = counters().count(
      {.further = true}, [&](int) { instruments().fingerprint(stream(), data, bytes); });
  runtime().release(data);
  // Each warp adds once to one word, and nobody reads the result: a sector each.
  const double warps = 4.0 * gpu().multiprocessors * 256 / 32;
  const double sum = counts.reduction_bytes.value() + counts.atomic_bytes.value();
  EXPECT_GT(sum, 0.0);
  EXPECT_LE(sum, 32.0 * warps);
  EXPECT_EQ(counts.mma_sync_flops.value(), 0.0);
}

// It makes more passes than one profiler may, and other metrics in between: every count is right.
TEST_F(GpuCounters, CountAsOftenAsAsked) {
  const std::uint64_t bytes = 4 * kMib;
  void* const data = runtime().allocate(bytes);
  instruments().noise(stream(), data, bytes);
  for (int i = 0; i < 10; ++i) {
    SCOPED_TRACE(i);
    const Dtype dtype = i == 4 ? Dtype::bf16 : Dtype::f16;
    const HardwareCounts counts =
        counters().count({.dtype = dtype, .further = i % 3 == 2},
                         [&](int) { instruments().fingerprint(stream(), data, bytes); });
    EXPECT_NEAR(counts.l2_read_bytes.value(), static_cast<double>(bytes), 0.01 * bytes);
  }
  runtime().release(data);
}

// naive's kernels are short: whatever a launch costs more shows in them first.
TEST_F(GpuCounters, LeaveTimesAsTheyWere) {
  const Implementation& naive = *builtin_registry().find("naive", Backend::cuda);
  const Problem problem = {.dtype = Dtype::f16,
                           .batch = 4,
                           .num_heads_q = 4,
                           .num_heads_kv = 4,
                           .seqlen_q = 512,
                           .seqlen_k = 512,
                           .head_dim = 64,
                           .layout = Layout::bhsd};
  Arena arena(runtime());
  const Inputs inputs(arena, problem, InputKind::normal, 1, gpu().threads);
  const Config config = default_config(naive);
  const std::uint64_t workspace_bytes = naive.workspace_bytes(problem, config, gpu());
  const Arena::Buffer o = arena.allocate("o", bytes_like_q(problem));
  const Arena::Buffer workspace = arena.allocate("workspace", workspace_bytes);
  Tensors tensors = inputs.tensors();
  tensors.o = o.get();
  tensors.workspace = workspace.get();
  tensors.workspace_bytes = workspace_bytes;
  PreparedKernel* const prepared = naive.prepare(problem, config, gpu());
  const auto launch = [&](int) { naive.launch(prepared, tensors, runtime().queue()); };
  const auto median_s = [&] {
    std::vector<double> seconds;
    for (int i = 0; i < 20; ++i) seconds.push_back(runtime().seconds_of(50, launch, {}));
    return median(seconds);
  };
  median_s();  // warm
  const double before = median_s();
  EXPECT_EQ(counters().check().wrong, "");
  for (int points = 0; points < 12; ++points) {
    counters().count({.launches = 2}, launch);
    const double after = median_s();
    RecordProperty("after_" + std::to_string(points), std::to_string(after / before));
    EXPECT_NEAR(after, before, 0.01 * before) << "after " << points + 1 << " counts";
  }
  naive.release(prepared);
}

TEST_F(GpuCounters, TheTraceNamesWhatRan) {
  KernelTrace& trace = kernel_trace_of(gpu());
  if (const std::string reason = trace.why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const std::uint64_t bytes = kMib;
  void* const from = runtime().allocate(bytes);
  void* const to = runtime().allocate(bytes);
  instruments().copy(stream(), from, to, bytes);  // before: not among them
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<ExecutedKernel> kernels = trace.trace([&] {
      instruments().copy(stream(), from, to, bytes);
      instruments().fingerprint(stream(), from, bytes);
      instruments().copy(stream(), from, to, bytes);
    });
    ASSERT_EQ(kernels.size(), 2U);
    EXPECT_EQ(kernels[0].symbol, "copy");
    EXPECT_EQ(kernels[0].launches, 2);
    EXPECT_EQ(kernels[0].block[0], 256U);
    EXPECT_EQ(kernels[0].grid[0], static_cast<std::uint32_t>(4 * gpu().multiprocessors));
    EXPECT_GT(kernels[0].registers, 0);
    EXPECT_EQ(kernels[0].dynamic_shared_bytes.value(), 0U);
    EXPECT_EQ(kernels[1].symbol, "fingerprint");
    EXPECT_EQ(kernels[1].launches, 1);
  }
  runtime().release(from);
  runtime().release(to);
}

}  // namespace
}  // namespace attnlab
