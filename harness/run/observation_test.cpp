// Tests what is made of what the instruments say; observe_test.cpp has competitors observed.
#include "harness/run/observation.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/plan/protocol.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/fake_observers.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using fake::compiled;
using fake::executed;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Contradiction, NoneWhereEachUnitRanAsCompiled) {
  const Compilation units[] = {{.unit = "scores", .entries = {compiled("qk"), compiled("unused")}},
                               {.unit = "rows", .entries = {compiled("softmax")}}};
  const ExecutedKernel kernels[] = {executed("softmax"), executed("qk"), executed("qk")};
  EXPECT_EQ(contradiction(kernels, units, nullptr), "");
}

TEST(Contradiction, AnotherShapeThanTheCompiledOne) {
  const Compilation units[] = {{.unit = "rows", .entries = {compiled("softmax")}}};
  const auto reason_of = [&](const auto& change) {
    ExecutedKernel kernel = executed("softmax");
    change(kernel);
    const ExecutedKernel kernels[] = {executed("softmax"), kernel};
    return contradiction(kernels, units, "cuBLAS");
  };
  EXPECT_EQ(reason_of([](ExecutedKernel&) {}), "");
  EXPECT_EQ(reason_of([](ExecutedKernel& kernel) { kernel.registers = 41; }),
            "softmax ran with 128 threads, 41 registers, 16 + 1024 bytes of shared memory, and it "
            "was compiled for 128 threads, 40 registers, 16 + 1024 bytes of shared memory");
  EXPECT_PRED2(contains, reason_of([](ExecutedKernel& kernel) { kernel.block[2] = 2; }),
               "softmax ran with 256 threads");
  EXPECT_PRED2(contains, reason_of([](ExecutedKernel& kernel) { kernel.dynamic_shared_bytes = 0; }),
               "16 + 0 bytes");
  EXPECT_PRED2(contains, reason_of([](ExecutedKernel& kernel) { kernel.static_shared_bytes = {}; }),
               "0 + 1024 bytes");
}

TEST(Contradiction, AThreadHasAtLeast16Registers) {
  const auto reason_of = [](int compiled_for, int ran_with) {
    const Compilation units[] = {{.unit = "rows", .entries = {compiled("softmax", compiled_for)}}};
    ExecutedKernel kernel = executed("softmax");
    kernel.registers = ran_with;
    const ExecutedKernel kernels[] = {kernel};
    return contradiction(kernels, units, nullptr);
  };
  EXPECT_EQ(reason_of(10, 16), "");
  EXPECT_EQ(reason_of(10, 10), "");
  for (const auto& [compiled_for, ran_with] : {std::pair(10, 17), {17, 16}, {17, 24}}) {
    EXPECT_PRED2(contains, reason_of(compiled_for, ran_with), "softmax ran with")
        << compiled_for << ", " << ran_with;
  }
}

TEST(Contradiction, AForeignKernelIsALibrarysOrWrong) {
  const Compilation units[] = {{.unit = "rows", .entries = {compiled("softmax")}}};
  const ExecutedKernel kernels[] = {executed("softmax"), executed("gemm")};
  EXPECT_EQ(contradiction(kernels, units, nullptr), "gemm ran, which is none of the kernel's own");
  EXPECT_EQ(contradiction(kernels, units, "cuBLAS"), "");
}

TEST(Contradiction, AUnitOfWhichNothingRan) {
  const Compilation units[] = {{.unit = "rows", .entries = {compiled("softmax")}},
                               {.unit = "scores", .entries = {compiled("qk"), compiled("pv")}}};
  const ExecutedKernel kernels[] = {executed("softmax"), executed("gemm")};
  EXPECT_EQ(contradiction(kernels, units, "cuBLAS"), "nothing of unit scores ran");
}

TEST(Contradiction, UnitsMayShareTheNameOfAnEntry) {
  const Compilation units[] = {{.unit = "small", .entries = {compiled("tile", 40)}},
                               {.unit = "large", .entries = {compiled("tile", 80)}}};
  ExecutedKernel large = executed("tile");
  large.registers = 80;
  const ExecutedKernel both[] = {executed("tile"), large};
  EXPECT_EQ(contradiction(both, units, nullptr), "");
  const ExecutedKernel one[] = {large};
  EXPECT_EQ(contradiction(one, units, nullptr), "nothing of unit small ran");
  ExecutedKernel neither = large;
  neither.registers = 60;
  const ExecutedKernel wrong[] = {executed("tile"), large, neither};
  EXPECT_PRED2(contains, contradiction(wrong, units, nullptr), "tile ran with");
}

TEST(Contradiction, UnitsThatCannotBeToldApartRanTogether) {
  const Compilation units[] = {{.unit = "dq", .entries = {compiled("tile")}},
                               {.unit = "dkv", .entries = {compiled("tile")}}};
  const ExecutedKernel kernels[] = {executed("tile")};
  EXPECT_EQ(contradiction(kernels, units, nullptr), "");
}

TEST(Contradiction, SomethingMustHaveRun) {
  const Compilation units[] = {{.unit = "rows", .entries = {compiled("softmax")}}};
  EXPECT_EQ(contradiction({}, units, nullptr), "no kernel ran on the device");
  EXPECT_EQ(contradiction({}, {}, "cuBLAS"), "no kernel ran on the device");
  const ExecutedKernel kernels[] = {executed("gemm")};
  EXPECT_EQ(contradiction(kernels, {}, nullptr), "") << "nothing was compiled to compare with";
}

TEST(JudgeCache, ColdIsProvedFrom95PercentOn) {
  const auto judge = [](double dram_read) {
    return judge_cache(CacheState::cold, dram_read, 1000.0, 2000.0, 1e6);
  };
  for (const double dram_read : {950.0, 1000.0, 3000.0}) {
    const CacheClaim claim = judge(dram_read);
    EXPECT_EQ(claim.claim, CacheState::cold);
    EXPECT_EQ(claim.verdict, ClaimVerdict::proved) << dram_read;
    EXPECT_EQ(claim.reason, "");
    EXPECT_DOUBLE_EQ(claim.dram_reads_of_compulsory.value(), dram_read / 1000.0);
  }
  const CacheClaim below = judge(949.0);
  EXPECT_EQ(below.verdict, ClaimVerdict::rejected);
  EXPECT_DOUBLE_EQ(below.dram_reads_of_compulsory.value(), 0.949);
  EXPECT_EQ(below.reason,
            "claims cold caches, but a launch read 949 bytes from dram, 94.9 % of the 1000 that it "
            "must: a cache served the rest");
  EXPECT_EQ(judge(kNan).verdict, ClaimVerdict::rejected);
  EXPECT_NE(judge(kNan).reason, "");
}

TEST(JudgeCache, HotIsProvedUpTo5PercentAndElseExplained) {
  const auto judge = [](double dram_read, double working_set) {
    return judge_cache(CacheState::hot, dram_read, 1000.0, working_set, 2e6);
  };
  for (const double dram_read : {0.0, 50.0}) {
    const CacheClaim claim = judge(dram_read, 1e6);
    EXPECT_EQ(claim.claim, CacheState::hot);
    EXPECT_EQ(claim.verdict, ClaimVerdict::proved) << dram_read;
    EXPECT_EQ(claim.reason, "");
  }
  const CacheClaim fits = judge(51.0, 2e6);
  EXPECT_EQ(fits.verdict, ClaimVerdict::unproved);
  EXPECT_EQ(fits.reason, "a launch read 5.1 % of its inputs from dram");
  const CacheClaim larger = judge(1000.0, 3.0 * (1 << 20));
  EXPECT_EQ(larger.verdict, ClaimVerdict::unproved);
  EXPECT_EQ(larger.reason,
            "a launch touches 3.0 MiB and the L2 has 1.9: inputs come from dram every time");
  EXPECT_EQ(judge(kNan, 1e6).verdict, ClaimVerdict::unproved);
  EXPECT_NE(judge(kNan, 1e6).reason, "");
}

TEST(OpenObservers, OnACpuThereIsNothingToOpen) {
  const Device cpu = fake::cpu();
  EXPECT_FALSE(open_observers(CounterMode::automatic, cpu).has_value());
  EXPECT_FALSE(open_observers(CounterMode::off, cpu).has_value());
  try {
    open_observers(CounterMode::require, cpu);
    ADD_FAILURE() << "required counters that are not there";
  } catch (const std::runtime_error& error) {
    EXPECT_PRED2(starts_with, error.what(), "--counters require: ");
    EXPECT_PRED2(contains, error.what(), "; take --backend cuda");
  }
}

TEST(OpenObservers, OffLoadsNothing) {
  const auto observers = open_observers(CounterMode::off, Device{.backend = Backend::cuda});
  ASSERT_TRUE(observers.has_value());
  EXPECT_EQ(observers->trace, nullptr);
  EXPECT_EQ(observers->counters, nullptr);
  EXPECT_EQ(observers->why_no_trace, "--counters off");
  EXPECT_EQ(observers->why_no_counters, "--counters off");
  EXPECT_EQ(describe(*observers), "Counters: none: --counters off.");
}

TEST(OpenObservers, ASelfTestThatCannotRunLeavesNoCounters) {
  fake::Counters counters;
  fake::KernelTrace trace;
  counters.trouble = fake::Trouble::error;
  const Observers observers = choose_observers(CounterMode::automatic, counters, trace);
  EXPECT_EQ(observers.counters, nullptr);
  EXPECT_NE(observers.why_no_counters.find("cannot count"), std::string::npos);
  EXPECT_EQ(observers.trace, &trace);
  EXPECT_THROW(choose_observers(CounterMode::require, counters, trace), std::runtime_error);
  counters.trouble = fake::Trouble::lost_device;
  EXPECT_THROW(choose_observers(CounterMode::automatic, counters, trace), DeviceLost);
}

TEST(OpenObservers, ASelfTestThatFailsMarksTheCounters) {
  fake::Counters counters;
  fake::KernelTrace trace;
  counters.self_test.wrong = "too few";
  const Observers observers = choose_observers(CounterMode::automatic, counters, trace);
  EXPECT_EQ(observers.counters, &counters);
  EXPECT_NE(observers.wrong_counters.find("too few"), std::string::npos);
  EXPECT_THROW(choose_observers(CounterMode::require, counters, trace), std::runtime_error);
  counters.self_test.wrong.clear();
  EXPECT_EQ(choose_observers(CounterMode::require, counters, trace).wrong_counters, "");
}

TEST(OpenObservers, TheSelfTestIsDescribed) {
  fake::Counters counters;
  counters.self_test.lines = {{"dram read of a copy", 1000.0, 1001.0},
                              {"L2 read of a copy", 1000.0, 985.0}};
  Observers observers{.counters = &counters};
  EXPECT_EQ(describe(observers), "Counters: within 1.50 % on a copy and a read of known size.");
  observers.wrong_counters = "the self-test failed";
  EXPECT_EQ(describe(observers), "Counters: marked invalid: the self-test failed.");
}

}  // namespace
}  // namespace attnlab
