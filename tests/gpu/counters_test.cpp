// Counters and the trace of kernels, on work whose bytes and kernels are known.
#include "kernels/api/counters.h"

#include <cstdint>

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
  EXPECT_EQ(check.lines.size(), 6U);
  for (const CounterCheck::Line& line : check.lines) {
    EXPECT_NEAR(line.counted_bytes, line.expected_bytes, 0.02 * line.expected_bytes) << line.what;
  }
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
      {.launches = 1}, [&](int) { instruments().fingerprint(stream(), data, bytes); });
  runtime().release(data);
  // One addition a warp to one word, whose result nobody reads: a sector each.
  const double warps = 4.0 * gpu().multiprocessors * 256 / 32;
  const double sum = counts.reduction_bytes.value() + counts.atomic_bytes.value();
  EXPECT_GT(sum, 0.0);
  EXPECT_LE(sum, 32.0 * warps);
  EXPECT_EQ(counts.mma_sync_flops.value(), 0.0);
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
