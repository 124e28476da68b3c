// Tests observe() on a competitor alone, and in its case.
#include <gtest/gtest.h>

#include <cstdio>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/accounting.h"
#include "harness/plan/model.h"
#include "harness/plan/protocol.h"
#include "harness/run/case_steps.h"
#include "harness/run/context.h"
#include "harness/run/ending.h"
#include "harness/run/observation.h"
#include "harness/run/observers.h"
#include "harness/run/run.h"
#include "harness/tensors/inputs.h"
#include "harness/testing/fake_attention.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/fake_observers.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using fake::compiled;
using fake::executed;

std::vector<KernelUnit> unit_rows(const Problem&, const Config&, const Device&) {
  return {{.name = "rows"}};
}

// Sets up a competitor that has been timed, a GPU that it was timed on, and instruments.
class Observe : public testing::Test {
 protected:
  Observe() {
    implementation_.units = unit_rows;
    competitor_.implementation = &implementation_;
    Record& record = run_.record;
    record.point.problem = {.seqlen_q = 64, .seqlen_k = 64, .head_dim = 16};
    record.time = Timing{.median_s = 1e-3};
    record.memory = Memory{.inputs_bytes = 3 * 4096, .outputs_bytes = 4096, .saved_bytes = 256};
    record.compilations = {{.unit = "rows", .entries = {compiled("softmax")}},
                           {.unit = "of the forward before", .entries = {compiled("other")}}};
    run_.launch_next = [this] { ++launches_; };
    trace_.executed = {executed("softmax")};
    counters_.counts = {.dram_read_bytes = 0.0, .metrics = {"dram__bytes_read.sum"}};
  }

  void observe() { attnlab::observe(run_, observers_, device_); }
  // Returns how the competitor's way ended.
  Ending ending() {
    try {
      observe();
    } catch (const Ending& ending) {
      return ending;
    }
    return {Status::ok, ""};
  }
  double compulsory_reads() const {
    return static_cast<double>(compulsory_traffic(run_.record.point.problem).read_bytes());
  }
  Record& record() { return run_.record; }

  Implementation implementation_ = fake::make("fake", Backend::cuda, false);
  Competitor competitor_{.kernel = "fake", .backend = Backend::cuda};
  CompetitorRun run_{.competitor = &competitor_, .record = {}};
  Device device_{.backend = Backend::cuda, .l2_bytes = 1 << 20};
  fake::Counters counters_;
  fake::KernelTrace trace_;
  Observers observers_{
      .trace = &trace_, .why_no_trace = "", .counters = &counters_, .why_no_counters = ""};
  int launches_ = 0;
};

TEST_F(Observe, CountsAreDividedByTheLaunches) {
  counters_.counts = {.dram_read_bytes = 0.0,
                      .dram_write_bytes = 10.0,
                      .sm_read_bytes = 15.0,
                      .l2_read_bytes = 20.0,
                      .l2_write_bytes = 30.0,
                      .tensor_active_cycles = 40.0,
                      .active_cycles = 50.0,
                      .elapsed_cycles = 60.0,
                      .wgmma_flops = 60.0,
                      .mma_sync_flops = 70.0,
                      .atomic_bytes = 80.0,
                      .reduction_bytes = 90.0,
                      .shared_wavefronts = 100.0,
                      .shared_load_conflicts = 110.0,
                      .shared_store_conflicts = 120.0,
                      .multiprocessor_clock_hz = 1.5e9,
                      .metrics = {"a"}};
  record().point.problem.dtype = Dtype::bf16;
  observe();
  ASSERT_EQ(counters_.requests.size(), 1u);
  EXPECT_EQ(counters_.requests[0].launches, 5) << "of 1 ms in 5 ms";
  EXPECT_EQ(counters_.requests[0].dtype, Dtype::bf16);
  EXPECT_EQ(counters_.requests[0].l2, L2State::steady);
  EXPECT_EQ(launches_, 1 + 5) << "one was traced";
  const Counted& counted = record().counted.value();
  EXPECT_EQ(counted.launches, 5);
  EXPECT_EQ(counted.l2, L2State::steady);
  EXPECT_TRUE(counted.valid);
  EXPECT_EQ(counted.reason, "");
  EXPECT_GT(counted.seconds, 0.0);
  const HardwareCounts& one = counted.a_launch;
  EXPECT_EQ(one.dram_read_bytes, 0.0);
  EXPECT_EQ(one.dram_write_bytes, 2.0);
  EXPECT_EQ(one.sm_read_bytes, 3.0);
  EXPECT_EQ(one.l2_read_bytes, 4.0);
  EXPECT_EQ(one.l2_write_bytes, 6.0);
  EXPECT_EQ(one.tensor_active_cycles, 8.0);
  EXPECT_EQ(one.active_cycles, 10.0);
  EXPECT_EQ(one.elapsed_cycles, 12.0);
  EXPECT_EQ(one.wgmma_flops, 12.0);
  EXPECT_EQ(one.mma_sync_flops, 14.0);
  EXPECT_EQ(one.atomic_bytes, 16.0);
  EXPECT_EQ(one.reduction_bytes, 18.0);
  EXPECT_EQ(one.shared_wavefronts, 20.0);
  EXPECT_EQ(one.shared_load_conflicts, 22.0);
  EXPECT_EQ(one.shared_store_conflicts, 24.0);
  EXPECT_EQ(one.multiprocessor_clock_hz, 1.5e9) << "a rate";
  EXPECT_EQ(one.metrics, (std::vector<std::string>{"a"}));
  EXPECT_EQ(record().cache_claim.value().verdict, ClaimVerdict::proved);
  const Evidence& evidence = record().evidence.value();
  EXPECT_EQ(evidence.executed.value().at(0).symbol, "softmax");
  EXPECT_EQ(evidence.as_asked, true);
  EXPECT_EQ(evidence.reason, "");
}

TEST_F(Observe, HotLaunchesTakeFiveMilliseconds) {
  const std::pair<double, int> cases[] = {{1.0, 1},  {5e-3, 1},  {4e-3, 2},
                                          {2e-3, 3}, {1e-6, 20}, {0.0, 20}};
  for (const auto& [seconds, launches] : cases) {
    record().time->median_s = seconds;
    observe();
    EXPECT_EQ(record().counted->launches, launches) << seconds;
  }
  record().time.reset();
  observe();
  EXPECT_EQ(record().counted->launches, 1) << "of what was not timed";
}

TEST_F(Observe, ColdLaunchesHaveInputsOfTheirOwnAndASweptL2) {
  record().protocol.cache = CacheState::cold;
  record().time->median_s = 1e-6;
  counters_.counts.dram_read_bytes = 20 * compulsory_reads();
  const std::uint64_t inputs = bytes_of_inputs(record().point.problem);
  const std::pair<std::uint64_t, int> cases[] = {{0, 1}, {inputs, 4}, {100 * inputs, 20}};
  for (const auto& [l2_bytes, launches] : cases) {
    device_.l2_bytes = l2_bytes;
    observe();
    EXPECT_EQ(record().counted->launches, launches) << l2_bytes;
    EXPECT_EQ(record().counted->l2, L2State::swept);
    EXPECT_EQ(counters_.requests.back().l2, L2State::swept);
    EXPECT_EQ(record().cache_claim->claim, CacheState::cold);
    EXPECT_EQ(record().cache_claim->verdict, ClaimVerdict::proved);
    EXPECT_DOUBLE_EQ(record().cache_claim->dram_reads_of_compulsory.value(), 20.0 / launches);
  }
}

TEST_F(Observe, AColdClaimThatDoesNotHoldIsInvalid) {
  record().protocol.cache = CacheState::cold;
  device_.l2_bytes = 0;  // one launch
  counters_.counts.dram_read_bytes = 0.9 * compulsory_reads();
  const Ending end = ending();
  EXPECT_EQ(end.status, Status::invalid);
  EXPECT_PRED2(starts_with, end.reason, "claims cold caches, but a launch read ");
  EXPECT_EQ(record().cache_claim.value().verdict, ClaimVerdict::rejected);
  EXPECT_EQ(record().cache_claim->reason, end.reason);
}

TEST_F(Observe, WhatAHotLaunchTouchesIsAllItsMemory) {
  counters_.counts.dram_read_bytes = 5 * compulsory_reads();
  Memory& memory = *record().memory;
  device_.l2_bytes = memory.inputs_bytes + memory.outputs_bytes + memory.saved_bytes;
  observe();
  EXPECT_PRED2(contains, record().cache_claim->reason, "100.0 % of its inputs");
  memory.workspace_bytes = 1;
  observe();
  EXPECT_PRED2(contains, record().cache_claim->reason, "inputs come from dram every time");
}

TEST_F(Observe, ALaunchOnE4m3DoesNotTouchWhatIsInFp32) {
  Problem& problem = record().point.problem;
  problem.dtype = Dtype::e4m3;
  counters_.counts.dram_read_bytes = 5 * compulsory_reads();
  record().memory = Memory{.inputs_bytes = bytes_of_inputs(problem), .outputs_bytes = 2048};
  device_.l2_bytes = bytes_read_of_inputs(problem) + 2048;
  observe();
  EXPECT_PRED2(contains, record().cache_claim->reason, "100.0 % of its inputs");
  --device_.l2_bytes;
  observe();
  EXPECT_PRED2(contains, record().cache_claim->reason, "inputs come from dram every time");
}

TEST_F(Observe, WhatDidNotRunAsAskedIsInvalid) {
  trace_.executed = {executed("softmax"), executed("other")};
  const Ending end = ending();
  EXPECT_EQ(end.status, Status::invalid);
  EXPECT_EQ(end.reason,
            "what ran is not what was asked for: other ran, which is none of the kernel's own");
  EXPECT_EQ(record().evidence.value().as_asked, false);
  EXPECT_EQ(record().evidence->reason, "other ran, which is none of the kernel's own");
  EXPECT_EQ(record().evidence->executed.value().size(), 2u);
  EXPECT_FALSE(record().counted.has_value());
  implementation_.library = "cuBLAS";
  EXPECT_EQ(ending().status, Status::ok);
}

TEST_F(Observe, TensorCoresMustHaveDoneTheSchedulesWork) {
  record().point.problem.dtype = Dtype::f16;
  record().point.competitors = {competitor_};
  record().flops = Flops{.executed = 1000};
  counters_.counts.wgmma_flops = 5 * 1000.0;  // of five launches
  counters_.counts.mma_sync_flops = 0.0;
  EXPECT_EQ(ending().status, Status::ok);
  EXPECT_EQ(record().counted->tensor_flops_of_executed, 1.0);
  counters_.counts.wgmma_flops = 5 * 500.0;
  const Ending half = ending();
  EXPECT_EQ(half.status, Status::invalid);
  EXPECT_PRED2(starts_with, half.reason, "tensor cores did 50.00 % of the FLOPs");
  EXPECT_EQ(record().counted->tensor_flops_of_executed, 0.5) << "it is in the record";
  observers_.wrong_counters = "the counters' self-test failed";
  EXPECT_EQ(ending().status, Status::ok) << "counters that are wrong prove nothing";
}

TEST_F(Observe, WithoutUnitsOfItsOwnAnythingMayRunButNotNothing) {
  implementation_.units = nullptr;
  trace_.executed = {executed("gemm")};
  EXPECT_EQ(ending().status, Status::ok);
  EXPECT_EQ(record().evidence->as_asked, true);
  trace_.executed.clear();
  EXPECT_EQ(ending().reason, "what ran is not what was asked for: no kernel ran on the device");
}

TEST_F(Observe, AnInstrumentThatFailsLeavesAReason) {
  trace_.trouble = counters_.trouble = fake::Trouble::error;
  EXPECT_EQ(ending().status, Status::ok);
  EXPECT_EQ(record().evidence.value().reason, "cannot trace");
  EXPECT_FALSE(record().evidence->executed.has_value());
  EXPECT_FALSE(record().evidence->as_asked.has_value());
  EXPECT_EQ(record().counted.value().reason, "cannot count");
  EXPECT_FALSE(record().counted->valid);
  EXPECT_TRUE(record().counted->a_launch.metrics.empty());
  EXPECT_EQ(record().cache_claim.value().verdict, ClaimVerdict::unproved);
  EXPECT_EQ(record().cache_claim->reason, "cannot count");
  observers_.counts_are_required = true;
  const Ending end = ending();
  EXPECT_EQ(end.status, Status::invalid);
  EXPECT_EQ(end.reason, "--counters require: cannot count");
}

TEST_F(Observe, AMissingInstrumentLeavesAReason) {
  observers_ = {.why_no_trace = "no trace", .why_no_counters = "no counters"};
  EXPECT_EQ(ending().status, Status::ok);
  EXPECT_EQ(launches_, 0);
  EXPECT_EQ(record().evidence.value().reason, "no trace");
  EXPECT_EQ(record().counted.value().reason, "no counters");
  EXPECT_EQ(record().cache_claim.value().reason, "no counters");
}

TEST_F(Observe, AChipWithoutTheCounterProvesNothing) {
  record().protocol.cache = CacheState::cold;
  counters_.counts.dram_read_bytes.reset();
  EXPECT_EQ(ending().status, Status::ok);
  EXPECT_TRUE(record().counted->valid);
  EXPECT_EQ(record().cache_claim->verdict, ClaimVerdict::unproved);
  EXPECT_EQ(record().cache_claim->claim, CacheState::cold);
  EXPECT_EQ(record().cache_claim->reason, "dram reads were not counted");
}

TEST_F(Observe, CountersThatFailedTheirSelfTestKeepTheirFiguresAndProveNothing) {
  observers_.wrong_counters = "the counters' self-test failed: ...";
  record().protocol.cache = CacheState::cold;  // the figures would reject it
  EXPECT_EQ(ending().status, Status::ok);
  EXPECT_FALSE(record().counted->valid);
  EXPECT_EQ(record().counted->reason, observers_.wrong_counters);
  EXPECT_TRUE(record().counted->a_launch.dram_read_bytes.has_value());
  EXPECT_EQ(record().cache_claim->verdict, ClaimVerdict::unproved);
  EXPECT_EQ(record().cache_claim->reason, observers_.wrong_counters);
  observers_.counts_are_required = true;
  EXPECT_EQ(ending().reason, "--counters require: " + observers_.wrong_counters);
}

TEST_F(Observe, ALostDeviceIsNoReasonToGoOn) {
  counters_.trouble = fake::Trouble::lost_device;
  EXPECT_THROW(observe(), DeviceLost);
  counters_.trouble = fake::Trouble::none;
  trace_.trouble = fake::Trouble::lost_device;
  EXPECT_THROW(observe(), DeviceLost);
}

struct PreparedProblem : PreparedKernel {
  explicit PreparedProblem(const Problem& given) : problem(given) {}
  Problem problem;
};

// These live until the test ends: what is on a device that is lost is not released.
std::list<PreparedProblem> prepared;

// Runs a right kernel as a case.
class ObservedCase : public testing::Test {
 protected:
  ObservedCase() {
    kernel_.prepare = [](const Problem& problem, const Config&, const Device&) {
      return static_cast<PreparedKernel*>(&prepared.emplace_back(problem));
    };
    kernel_.launch = [](PreparedKernel* kernel, const Tensors& tensors, void*) {
      fake::for_each_row(static_cast<PreparedProblem*>(kernel)->problem, tensors,
                         [](const fake::Row& row) { fake::attend(row, row.mask.seqlen_k); });
    };
    work_ = {.problem = {.seqlen_q = 8, .seqlen_k = 8, .head_dim = 8},
             .competitors = {{.kernel = "fake", .implementation = &kernel_}}};
    device_.threads = 1;
    context_.device = &device_;
    context_.protocol = {.min_rounds = 2, .max_rounds = 2, .warmup_seconds = 0.0};
    context_.memory_limit_bytes = 1 << 30;
    context_.observers = &observers_;
    trace_.executed = {executed("softmax")};
    counters_.counts = {.dram_read_bytes = 0.0, .metrics = {"dram__bytes_read.sum"}};
  }

  ~ObservedCase() override { prepared.clear(); }

  Record run() {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    Progress progress(file.get(), case_weight(work_, context_.protocol));
    run_case(work_, context_, progress,
             [&](const std::vector<Record>& finished) { last_ = finished.at(0); });
    return last_;
  }

  Implementation kernel_ = fake::make("fake", Backend::cpu, false);
  Case work_;
  Device device_ = fake::cpu();
  fake::Counters counters_;
  fake::KernelTrace trace_;
  Observers observers_{
      .trace = &trace_, .why_no_trace = "", .counters = &counters_, .why_no_counters = ""};
  RunContext context_;
  Record last_;
};

TEST_F(ObservedCase, WhatWasTimedIsObserved) {
  const Record record = run();
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_TRUE(record.time.has_value());
  EXPECT_EQ(record.evidence.value().as_asked, true);
  EXPECT_TRUE(record.counted.value().valid);
  EXPECT_EQ(record.cache_claim.value().verdict, ClaimVerdict::proved);
  context_.observers = nullptr;
  const Record unseen = run();
  EXPECT_EQ(unseen.status, Status::ok) << unseen.reason;
  EXPECT_FALSE(unseen.evidence || unseen.counted || unseen.cache_claim);
}

TEST_F(ObservedCase, CountersThatFailCostNoTime) {
  counters_.trouble = fake::Trouble::error;
  const Record record = run();
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_TRUE(record.time.has_value());
  EXPECT_EQ(record.counted.value().reason, "cannot count");
  observers_.counts_are_required = true;
  EXPECT_EQ(run().status, Status::invalid);
}

TEST_F(ObservedCase, ARejectedClaimOrAnotherKernelLeavesNoTime) {
  context_.protocol.cache = CacheState::cold;
  const Record rejected = run();
  EXPECT_EQ(rejected.status, Status::invalid);
  EXPECT_PRED2(starts_with, rejected.reason, "claims cold caches");
  EXPECT_FALSE(rejected.time.has_value());
  EXPECT_EQ(rejected.cache_claim.value().verdict, ClaimVerdict::rejected);
  EXPECT_TRUE(rejected.counted.value().valid) << "what was counted stays";
  trace_.executed.clear();
  const Record other = run();
  EXPECT_EQ(other.status, Status::invalid);
  EXPECT_PRED2(starts_with, other.reason, "what ran is not what was asked for");
  EXPECT_FALSE(other.time.has_value());
  EXPECT_EQ(other.evidence.value().as_asked, false);
}

TEST_F(ObservedCase, ADeviceThatIsLostWhileItCountsEndsTheCase) {
  counters_.trouble = fake::Trouble::lost_device;
  EXPECT_THROW(run(), DeviceLost);
  EXPECT_EQ(last_.status, Status::invalid);
  EXPECT_PRED2(contains, last_.reason, "cannot count");
  EXPECT_FALSE(last_.time.has_value());
}

}  // namespace
}  // namespace attnlab
