#include "harness/run/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/derive_seed.h"
#include "harness/plan/turns_memory.h"
#include "harness/record/record_json.h"
#include "harness/run/case_steps.h"
#include "harness/run/user_tensors.h"
#include "harness/tensors/safetensors.h"
#include "harness/testing/fake_runtime.h"
#include "harness/testing/fake_telemetry.h"
#include "harness/testing/test_run_case.h"
#include "harness/testing/test_support.h"
#include "kernels/api/runtime.h"
#include "reference/oracle.h"

namespace attnlab {
namespace {

TEST_F(RunCase, EverySecondIsSpentOnSomething) {
  Spending spending;
  context_.spending = &spending;
  const auto start = std::chrono::steady_clock::now();
  run_one(kernel_with<Fault::none>());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  for (const double share : {spending.inputs, spending.references, spending.verification,
                             spending.watch, spending.timing}) {
    EXPECT_GT(share, 0.0);
  }
  EXPECT_EQ(spending.observation, 0.0) << "nobody observes";
  EXPECT_EQ(spending.peers, 0.0) << "there are none";
  EXPECT_LE(spending.inputs + spending.references + spending.verification + spending.watch +
                spending.timing,
            taken.count());
}

TEST_F(RunCase, ACorrectKernelGivesACompleteRecord) {
  const Record record = run_one(kernel_with<Fault::none>());
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_EQ(record.reason, "");
  for (const auto* verdicts : {&record.verify, &record.verify_timed}) {
    ASSERT_EQ(verdicts->size(), 2u);
    for (const auto& verdict : *verdicts) {
      EXPECT_TRUE(verdict.pass) << verdict.tensor;
      EXPECT_DOUBLE_EQ(verdict.coverage, 1.0);
    }
  }
  ASSERT_TRUE(record.time.has_value());
  EXPECT_EQ(record.time->samples_s.size(), 3u);
  EXPECT_EQ(record.order, (std::vector<int>{0, 0, 0}));
  EXPECT_GT(record.time->min_s, 0.0);
  EXPECT_LE(record.time->min_s, record.time->q1_s);
  EXPECT_LE(record.time->q1_s, record.time->median_s);
  EXPECT_LE(record.time->median_s, record.time->q3_s);
  EXPECT_LE(record.time->ci95_low_s, record.time->ci95_high_s);
  EXPECT_EQ(record.time->timer, "steady_clock");
  EXPECT_EQ(record.flops->useful, 4 * (2 * 4 * 17 * 33) * 8);
  EXPECT_EQ(record.flops->executed, 12345);
  EXPECT_EQ(record.requested->read_bytes(), 100);
  EXPECT_TRUE(record.compulsory_bytes.has_value());
  EXPECT_EQ(record.sweep, "test");
  EXPECT_EQ(record.command_line, "attnlab run test");
  EXPECT_EQ(record.timestamp.size(), 20u);
  EXPECT_EQ(record.point.competitors.size(), 1u);
}

TEST_F(RunCase, MasksLayoutsAndEmptyRowsVerify) {
  work_.problem.layout = Layout::bhsd;
  for (const char* mask : {"causal", "window:2:3", "padding"}) {
    work_.problem.mask = parse_mask(mask);
    work_.problem.lengths = {};
    if (work_.problem.mask.padding) {
      work_.problem.lengths = {.kind = LengthsKind::padding, .keys = {33, 20}};
    }
    const Record record = run_one(kernel_with<Fault::none>());
    EXPECT_EQ(record.status, Status::ok) << record.reason;
  }
  work_.problem.mask = parse_mask("causal");
  work_.problem.lengths = {};
  work_.problem.seqlen_k = 5;  // the first 12 rows see nothing
  const Record record = run_one(kernel_with<Fault::none>());
  EXPECT_EQ(record.status, Status::ok) << record.reason;
}

TEST_F(RunCase, EveryPassIsVerifiedTensorByTensor) {
  const std::pair<Pass, std::vector<std::string>> passes[] = {
      {Pass::fwd, {"o", "lse"}},
      {Pass::bwd, {"dq", "dk", "dv"}},
      {Pass::fwdbwd, {"o", "lse", "dq", "dk", "dv"}}};
  for (const auto& [pass, tensors] : passes) {
    work_.problem.pass = pass;
    for (const char* mask : {"none", "causal+window:2:3"}) {
      work_.problem.mask = parse_mask(mask);
      const Record record = run_one(kernel_with<Fault::none>());
      EXPECT_EQ(record.status, Status::ok) << record.reason;
      for (const auto* verdicts : {&record.verify, &record.verify_timed}) {
        std::vector<std::string> names;
        for (const auto& verdict : *verdicts) names.push_back(verdict.tensor);
        EXPECT_EQ(names, tensors);
      }
      EXPECT_TRUE(record.time.has_value());
    }
  }
}

TEST_F(RunCase, WrongBackwardsFail) {
  for (const Pass pass : {Pass::bwd, Pass::fwdbwd}) {
    work_.problem.pass = pass;
    const std::vector<Record> records =
        run({competitor("fake", kernel_with<Fault::forgets_dq>()),
             competitor("good", kernel_with<Fault::none>()),
             competitor("fake", kernel_with<Fault::wrong_dk>()),
             competitor("fake", kernel_with<Fault::saves_past_its_end>())});
    ASSERT_EQ(records.size(), 4u);
    expect_failure(records[0], "dq: ");
    expect_failure(records[1], "dk: ");
    expect_failure(records[2], "wrote outside saved of fake default, 0 bytes past its last byte");
    EXPECT_EQ(live_states_at_record_.front(), 0) << "the forward's state is released too";
    live_states_at_record_.clear();
    EXPECT_EQ(records[3].status, Status::ok) << records[3].reason;
  }
}

TEST_F(RunCase, TheForwardBeforeABackwardIsWatchedToo) {
  work_.problem.pass = Pass::bwd;
  expect_failure(run_one(kernel_with<Fault::forward_writes_past_workspace>()),
                 "wrote outside workspace, 0 bytes past its last byte");
}

TEST_F(RunCase, TheForwardBeforeABackwardRunsWithItsOwnConfig) {
  using F = Fake<Fault::none, 1000>;
  Implementation kernel = *kernel_with<Fault::none>();
  kernel.forward_config = [](const Config&) { return Config(); };
  kernel.prepare = [](const Problem& problem, const Config& config, const Device& device) {
    const bool is_forward = problem.pass == Pass::fwd;
    if (config.to_string() != (is_forward ? "default" : "block_m=64")) {
      throw std::runtime_error("the config of the other pass");
    }
    return F::prepare(problem, config, device);
  };
  work_.problem.pass = Pass::bwd;
  Competitor tiled = competitor("fake", &kernel);
  tiled.config.set("block_m", 64);
  const Record record = run({tiled}).at(0);
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_EQ(record.point.competitors.at(0).config.to_string(), "block_m=64");
}

TEST_F(RunCase, ABackwardMayOnlyReadWhatItsForwardLeft) {
  work_.problem.pass = Pass::bwd;
  expect_failure(run_one(kernel_with<Fault::changes_o_in_backward>()), "the backward changed o, ");
  expect_failure(run_one(kernel_with<Fault::changes_saved_in_backward>()),
                 "the backward changed saved, ");
  const Record later = run_one(kernel_with<Fault::changes_lse_once>());
  expect_failure(later, "the backward changed lse, ");
  EXPECT_FALSE(later.verify_timed.empty()) << "it was right at first";
}

TEST_F(RunCase, ABlockMaskIsSummarised) {
  work_.problem.mask = parse_mask("blocks:local:0:8x16");
  work_.problem.seqlen_q = work_.problem.seqlen_k = 32;
  const Record record = run_one(kernel_with<Fault::none>());
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  ASSERT_TRUE(record.pattern.has_value());
  EXPECT_DOUBLE_EQ(record.pattern->visible_fraction, 2.0 / 8.0);
}

TEST_F(RunCase, ThePeakIsTheCompetitorsOwn) {
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    work_.problem.pass = pass;
    const std::vector<Record> records =
        run({competitor("small", kernel_with<Fault::none, 64>()),
             competitor("large", kernel_with<Fault::none, 100000>()),
             competitor("none", kernel_with<Fault::none, 0>())});
    ASSERT_EQ(records.size(), 3u);
    for (const Record& record : records) {
      ASSERT_EQ(record.status, Status::ok) << record.reason;
      const Memory& memory = *record.memory;
      EXPECT_EQ(memory.peak_bytes, memory.inputs_bytes + memory.outputs_bytes + memory.saved_bytes +
                                       memory.workspace_bytes);
    }
    EXPECT_EQ(records[0].memory->workspace_bytes, 64u);
    EXPECT_EQ(records[1].memory->workspace_bytes, 100000u);
    const std::uint64_t lse_bytes = 2 * 4 * 17 * 4;
    EXPECT_EQ(records[0].memory->saved_bytes, lse_bytes + (pass == Pass::fwd ? 0 : kSavedBytes));
  }
}

TEST_F(RunCase, WrongKernelsFailAndTheOthersGoOn) {
  const std::vector<Record> records =
      run({competitor("fake", kernel_with<Fault::nan_output>()),
           competitor("good", kernel_with<Fault::none>()),
           competitor("fake", kernel_with<Fault::dropped_key>()),
           competitor("fake", kernel_with<Fault::reads_outputs>()),
           competitor("fake", kernel_with<Fault::writes_past_o>())});
  ASSERT_EQ(records.size(), 5u);
  expect_failure(records[0], "o: ");
  expect_failure(records[1], ": ");
  expect_failure(records[2], "o: ");
  expect_failure(records[3], "wrote outside o of fake default, 0 bytes past its last byte");
  EXPECT_FALSE(records[0].verify.empty());
  EXPECT_EQ(live_states_at_record_.at(0), 0) << "released before the next one is prepared";
  EXPECT_EQ(records[4].status, Status::ok) << records[4].reason;
  EXPECT_EQ(records[4].point.competitors[0].kernel, "good");
  EXPECT_EQ(records[4].order, (std::vector<int>{0, 0, 0})) << "failed competitors are not timed";
}

TEST_F(RunCase, TimedOutputsAreVerifiedAgain) {
  const Record record = run_one(kernel_with<Fault::wrong_when_repeated>());
  expect_failure(record, "o: ");
  ASSERT_FALSE(record.verify.empty());
  EXPECT_TRUE(record.verify[0].pass);
  ASSERT_FALSE(record.verify_timed.empty());
  EXPECT_FALSE(record.verify_timed[0].pass);
}

// Where the oracle looks at some rows alone, it looks at others the second time.
TEST_F(RunCase, TimedOutputsAreVerifiedInOtherRows) {
  work_.problem.seqlen_q = 4096;
  context_.protocol.verify_multiply_adds = 1;
  const Problem& problem = work_.problem;
  const auto sampled = [&](const char* which) {
    return reference::choose_samples(problem, 1, derive_seed(work_.seed, problem.id() + which))
        .rows.at(0)
        .rows;
  };
  const std::vector<std::int64_t> first = sampled(""), second = sampled(" timed");
  const auto other = std::ranges::find_if(
      second, [&](std::int64_t row) { return std::ranges::find(first, row) == first.end(); });
  ASSERT_NE(other, second.end());
  wrong_row = *other;
  const Record record = run_one(kernel_with<Fault::wrong_row>());
  expect_failure(record, "o: ");
  EXPECT_TRUE(record.verify.at(0).pass);
  EXPECT_FALSE(record.verify_timed.at(0).pass);
}

TEST_F(RunCase, AnOverrunInATimedLaunchSpoilsTheTimesOfAll) {
  const std::vector<Record> records =
      run({competitor("good", kernel_with<Fault::none>()),
           competitor("fake", kernel_with<Fault::writes_past_workspace_when_repeated>())});
  for (const Record& record : records) {
    EXPECT_EQ(record.status, Status::failed);
    EXPECT_NE(record.reason.find("wrote outside workspace"), std::string::npos) << record.reason;
    EXPECT_FALSE(record.time.has_value());
  }
}

TEST_F(RunCase, ExceptionsAreRecords) {
  const std::vector<Record> records =
      run({competitor("a", kernel_with<Fault::throws_in_launch>()),
           competitor("b", kernel_with<Fault::throws_in_prepare>()),
           competitor("c", kernel_with<Fault::bad_alloc_in_prepare>()),
           competitor("d", kernel_with<Fault::throws_when_repeated>()),
           competitor("e", kernel_with<Fault::none>())});
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[0].status, Status::invalid);
  EXPECT_EQ(records[0].reason, "cannot launch");
  EXPECT_EQ(records[1].status, Status::invalid);
  EXPECT_EQ(records[1].reason, "cannot prepare");
  EXPECT_EQ(records[2].status, Status::out_of_memory);
  EXPECT_EQ(records[3].status, Status::invalid);
  EXPECT_EQ(records[3].reason, "only once");
  EXPECT_EQ(records[4].status, Status::ok) << records[4].reason;
}

TEST_F(RunCase, WhatCannotRunIsRecordedAtOnce) {
  Competitor unsupported = competitor("a", kernel_with<Fault::none>());
  unsupported.unsupported = "head_dim is odd";
  Competitor skipped = competitor("b", kernel_with<Fault::none>());
  skipped.skipped = "too slow";
  const std::vector<Record> records = run({competitor("e", kernel_with<Fault::none>()), unsupported,
                                           skipped, competitor("v9", nullptr)});
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].status, Status::unsupported);
  EXPECT_EQ(records[0].reason, "head_dim is odd");
  EXPECT_EQ(records[1].status, Status::skipped);
  EXPECT_EQ(records[1].reason, "too slow");
  EXPECT_EQ(records[2].status, Status::unsupported);
  EXPECT_NE(records[2].reason.find("'v9'"), std::string::npos);
  EXPECT_EQ(records[3].status, Status::ok);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(records[static_cast<std::size_t>(i)].time.has_value());
}

// 2^62 bytes would be refused by the allocator too, so the message tells who refused.
TEST_F(RunCase, SizesThatDoNotFitAreRefusedBeforeAllocation) {
  const std::vector<Record> records =
      run({competitor("huge", kernel_with<Fault::none, std::uint64_t{1} << 62>()),
           competitor("good", kernel_with<Fault::none>())});
  EXPECT_EQ(records[0].status, Status::out_of_memory);
  EXPECT_NE(records[0].reason.find("of 1 GiB available: shorten"), std::string::npos)
      << records[0].reason;
  EXPECT_EQ(records[0].memory->workspace_bytes, std::uint64_t{1} << 62);
  EXPECT_FALSE(records[0].memory->peak_bytes.has_value());
  EXPECT_EQ(records[1].status, Status::ok);

  // Here the tensors themselves are too large.
  work_.problem.num_heads_q = std::int64_t{1} << 40;
  EXPECT_EQ(run_one(kernel_with<Fault::none>()).status, Status::out_of_memory);
}

TEST_F(RunCase, WorkspaceIsSharedAndOutputsAreCounted) {
  // There is room for inputs, one workspace and two sets of outputs, not three.
  const std::uint64_t q_bytes = 2 * 4 * 17 * 8 * 4, k_bytes = 2 * 2 * 33 * 8 * 4;
  const std::uint64_t lse_bytes = 2 * 4 * 17 * 4, workspace = 100000;
  context_.memory_limit_bytes = q_bytes + 2 * k_bytes + workspace + 2 * (q_bytes + lse_bytes);
  const Competitor one = competitor("fake", kernel_with<Fault::none, workspace>());
  const std::vector<Record> records = run({one, one, one});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].status, Status::out_of_memory);
  EXPECT_NE(records[0].reason.find("run it alone, attnlab run"), std::string::npos);
  EXPECT_EQ(records[1].status, Status::ok) << records[1].reason;
  EXPECT_EQ(records[2].status, Status::ok) << records[2].reason;
}

TEST_F(RunCase, WhatABackwardStartsFromIsCounted) {
  work_.problem.pass = Pass::bwd;
  const std::uint64_t q_bytes = 2 * 4 * 17 * 8 * 4, k_bytes = 2 * 2 * 33 * 8 * 4;
  const std::uint64_t lse_bytes = 2 * 4 * 17 * 4, workspace = 100000;
  const std::uint64_t shared = 2 * q_bytes + 2 * k_bytes + workspace;             // q, dO, k, v
  const std::uint64_t own = 2 * q_bytes + 2 * k_bytes + lse_bytes + kSavedBytes;  // o, dQ, dK, dV
  const Competitor one = competitor("fake", kernel_with<Fault::none, workspace>());
  context_.memory_limit_bytes = shared + 2 * own;
  EXPECT_EQ(run({one, one}).at(1).status, Status::ok);
  context_.memory_limit_bytes = shared + 2 * own - 1;
  EXPECT_EQ(run({one, one}).at(0).status, Status::out_of_memory);
  context_.memory_limit_bytes = shared + own - 1;
  EXPECT_EQ(run_one(one.implementation).status, Status::out_of_memory);
}

// Lets a device have less memory for timing than for verification, as if peers or other processes
// had taken some in between.
class RunCaseInLittleMemory : public RunCase {
 protected:
  RunCaseInLittleMemory() {
    context_.runtime = &memory_;
    device_.l2_bytes = 30000;
    context_.protocol.cache = CacheState::cold;
  }

  // Runs with only `bytes` of memory once all competitors are verified.
  std::vector<Record> run_with(std::uint64_t bytes, const std::vector<Competitor>& competitors) {
    memory_.limit_bytes = ~std::uint64_t{0};
    std::size_t verified = 0;
    context_.verified = [&](const Record&, const Tensors&) {
      if (++verified != competitors.size()) return;
      memory_.limit_bytes = bytes;
      memory_.peak_bytes = 0;
    };
    std::vector<Record> records = run(competitors);
    EXPECT_EQ(memory_.used_bytes, 0u);
    return records;
  }
  // Returns the peak of timing them without second sets of outputs.
  std::uint64_t needed(const std::vector<Competitor>& competitors) {
    context_.memory_limit_bytes = bytes_in_turns({work_of(competitors)}, device_, kAll);
    for (const Record& record : run_with(kAll, competitors)) {
      EXPECT_EQ(record.status, Status::ok) << record.reason;
    }
    return memory_.peak_bytes;
  }
  Case work_of(const std::vector<Competitor>& competitors) const {
    Case work = work_;
    work.competitors = competitors;
    return work;
  }

  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  fake::LimitedMemory memory_;
};

TEST_F(RunCaseInLittleMemory, WhoNeedsTheMostMakesRoomForTheOthers) {
  const Competitor small = competitor("small", kernel_with<Fault::none, 64>());
  const Competitor large = competitor("large", kernel_with<Fault::none, 100000>());
  const Competitor none = competitor("none", kernel_with<Fault::none, 0>());
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    work_.problem.pass = pass;
    const std::uint64_t of_two = needed({small, none});
    const std::uint64_t of_three = needed({small, large, none});
    EXPECT_GT(of_three, of_two + 100000 - 64);
    for (const std::uint64_t bytes : {of_two, of_three - 1}) {
      const std::vector<Record> records = run_with(bytes, {small, large, none});
      ASSERT_EQ(records.size(), 3u);
      EXPECT_EQ(records[0].point.competitors[0].kernel, "large");
      EXPECT_EQ(records[0].status, Status::out_of_memory);
      EXPECT_PRED2(contains, records[0].reason, "beside the inputs, more than is free");
      EXPECT_PRED2(contains, records[0].reason, "run it alone, attnlab run");
      EXPECT_FALSE(records[0].time.has_value());
      for (std::size_t i = 1; i < 3; ++i) {
        EXPECT_EQ(records[i].status, Status::ok) << records[i].reason;
        EXPECT_EQ(records[i].time.value().contenders, 2);
      }
    }
  }
}

TEST_F(RunCaseInLittleMemory, WithoutRoomForOneNoneIsTimed) {
  const Competitor one = competitor("one", kernel_with<Fault::none, 64>());
  const std::vector<Record> records = run_with(1000, {one, one});
  ASSERT_EQ(records.size(), 2u);
  for (const Record& record : records) EXPECT_EQ(record.status, Status::out_of_memory);
  EXPECT_PRED2(contains, records[0].reason, "more than is free: end other programs on the device");
  EXPECT_FALSE(records[1].reason.empty());
}

TEST_F(RunCase, CompetitorsAreInterleaved) {
  const std::vector<Record> records = run(
      {competitor("a", kernel_with<Fault::none>()), competitor("b", kernel_with<Fault::none>())});
  ASSERT_EQ(records.size(), 2u);
  for (std::size_t round = 0; round < 3; ++round) {
    EXPECT_EQ(records[0].order.at(round) + records[1].order.at(round), 1);
  }
}

TEST_F(RunCase, ThoseTimedTogetherAreRecordedTogether) {
  const std::vector<Record> records =
      run({competitor("a", kernel_with<Fault::none>()), competitor("v9", nullptr),
           competitor("b", kernel_with<Fault::nan_output>()),
           competitor("c", kernel_with<Fault::throws_when_repeated>()),
           competitor("d", kernel_with<Fault::wrong_when_repeated>())});
  std::string order;
  for (const Record& record : records) order += record.point.competitors[0].kernel + " ";
  EXPECT_EQ(order, "v9 b c d a ");
  EXPECT_EQ(calls_, (std::vector<std::size_t>{1, 1, 3}));
  EXPECT_EQ(records.at(4).time.value().contenders, 3);
  EXPECT_EQ(run_one(kernel_with<Fault::none>()).time.value().contenders, 1);
}

TEST_F(RunCase, TelemetryIsReadAroundTheSamples) {
  fake::Telemetry telemetry;
  telemetry.clocks_hz = {1.5e9};
  EXPECT_FALSE(run_one(kernel_with<Fault::none>()).time.value().telemetry.has_value())
      << "nobody asked";
  context_.telemetry = &telemetry;
  const Record record = run_one(kernel_with<Fault::none>());
  const BlockTelemetry& read = record.time.value().telemetry.value();
  EXPECT_EQ(read.settled, true);
  EXPECT_DOUBLE_EQ(read.cycles.value(), 1.5e9 * record.time->median_s);
  EXPECT_FALSE(record.energy.has_value());
  telemetry.reason = "no NVML";
  EXPECT_EQ(run_one(kernel_with<Fault::none>()).time.value().telemetry.value().reason, "no NVML");
}

TEST_F(RunCase, EnergyIsMeasuredWhenAskedFor) {
  fake::Telemetry telemetry;
  context_.telemetry = &telemetry;
  context_.measures_energy = true;
  const Record none = run_one(kernel_with<Fault::none>());
  EXPECT_EQ(none.status, Status::ok) << none.reason;
  EXPECT_FALSE(none.energy.value().use.has_value());
  EXPECT_EQ(none.energy->reason, "the device does not count its energy");

  const auto start = std::chrono::steady_clock::now();
  telemetry.energy = [&start] {  // 200 W, in steps of 0.1 s
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start;
    return 20.0 * std::floor(since.count() / 0.1);
  };
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    work_.problem.pass = pass;
    const Record record = run_one(kernel_with<Fault::none>());
    EXPECT_EQ(record.status, Status::ok) << record.reason;
    ASSERT_TRUE(record.energy.value().use.has_value()) << record.energy->reason;
    const EnergyUse& use = *record.energy->use;
    EXPECT_NEAR(use.mean_power_w, 200.0, 60.0);
    EXPECT_DOUBLE_EQ(use.picojoules_per_flop.value(),
                     use.joules_per_call * 1e12 / static_cast<double>(record.flops->useful));
  }
  work_.problem.pass = Pass::fwd;
  EXPECT_FALSE(run_one(kernel_with<Fault::wrong_when_repeated>()).energy.has_value());
}

// Kernels that ran before it are recorded, those after it are not: nothing on the device can be
// trusted.
TEST_F(RunCase, ALostDeviceEndsTheCaseWithTheKernelThatLostIt) {
  const struct {
    const Implementation* lost;
    std::vector<std::string> recorded;
  } cases[] = {{kernel_with<Fault::loses_device>(), {"v9", "b", "lost"}},
               {kernel_with<Fault::loses_device_when_repeated>(), {"v9", "b", "lost"}}};
  for (const auto& [lost, recorded] : cases) {
    work_.competitors = {competitor("v9", nullptr), competitor("a", kernel_with<Fault::none>()),
                         competitor("b", kernel_with<Fault::nan_output>()),
                         competitor("lost", lost), competitor("c", kernel_with<Fault::none>())};
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    Progress progress(file.get(), case_weight(work_, context_.protocol));
    std::vector<Record> records;
    const auto run_all = [&] {
      run_case(work_, context_, progress, [&](const std::vector<Record>& finished) {
        records.insert(records.end(), finished.begin(), finished.end());
      });
    };
    EXPECT_THROW(run_all(), DeviceLost);
    std::vector<std::string> names;
    for (const Record& record : records) names.push_back(record.point.competitors[0].kernel);
    ASSERT_EQ(names, recorded);
    const Record& last = records.back();
    EXPECT_EQ(last.status, Status::invalid);
    EXPECT_FALSE(last.time.has_value());
    EXPECT_PRED2(contains, last.reason, "lost default did not end within 2 s");
    EXPECT_PRED2(contains, last.reason, work_.problem.id());
    EXPECT_PRED2(contains, last.reason, "reproduce: attnlab run --backend cpu");
  }
  EXPECT_GT(live_states(), 0) << "nothing on a device that hangs is released";
  states.clear();
}

// The case is interrupted at every place where it looks, one after the other.
TEST_F(RunCase, AnInterruptionDropsWhatIsInWork) {
  work_.problem.pass = Pass::bwd;
  work_.competitors = {competitor("v9", nullptr), competitor("a", kernel_with<Fault::none>()),
                       competitor("b", kernel_with<Fault::forgets_dq>()),
                       competitor("c", kernel_with<Fault::none>())};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  std::vector<std::size_t> recorded;
  for (bool ended = false; !ended;) {
    std::size_t looks = 0, records = 0;
    context_.interrupted = [&] { return ++looks > recorded.size(); };
    Progress progress(file.get(), case_weight(work_, context_.protocol));
    try {
      run_case(work_, context_, progress,
               [&](const std::vector<Record>& finished) { records += finished.size(); });
      ended = true;
    } catch (const Interrupted&) {
      EXPECT_LE(records, 2u) << "of what was timed, nothing is kept";
    }
    EXPECT_EQ(live_states(), 0) << "every prepared kernel is released";
    recorded.push_back(records);
  }
  EXPECT_TRUE(std::ranges::is_sorted(recorded));
  EXPECT_EQ(recorded.front(), 0u);
  EXPECT_EQ(recorded.back(), 4u);
  EXPECT_EQ(recorded.at(recorded.size() - 2), 2u);
  // It looks at its beginning, at inputs, oracle, three verifications, warm-up; at two launches
  // that warm up and three rounds of two; after them, and at two last verifications.
  EXPECT_EQ(recorded.size(), 1u + 7 + 2 + 3 * 2 + 3);
}

TEST_F(RunCase, AFailingSinkStopsTheCase) {
  work_.competitors = {competitor("v9", nullptr), competitor("fake", kernel_with<Fault::none>())};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Progress progress(file.get(), case_weight(work_, context_.protocol));
  EXPECT_THROW(run_case(work_, context_, progress,
                        [](const std::vector<Record>&) { throw std::runtime_error("disk full"); }),
               std::runtime_error);
}

TEST_F(RunCase, EveryVerificationIsShownAndTheLastOneIsSaved) {
  const TestFile file(".safetensors", "");
  const auto save = [&](const Implementation* implementation) {
    TensorSaver saver(file.path(), SaveDropout::no);
    verifications_ = 0;
    context_.verified = [&](const Record& record, const Tensors& tensors) {
      ++verifications_;
      saver.save(record, tensors);
    };
    return saver.report({to_json(run_one(implementation))});
  };
  const auto third_of_o = [&] {
    const SafetensorsFile saved = read_safetensors(file.path());
    float value;
    std::memcpy(&value, saved.tensors.at("o").bytes.data() + 3 * sizeof value, sizeof value);
    return value;
  };
  EXPECT_PRED2(contains, save(kernel_with<Fault::none>()), "which passed verification");
  EXPECT_EQ(verifications_, 2);
  const float right = third_of_o();
  EXPECT_PRED2(contains, save(kernel_with<Fault::wrong_when_repeated>()),
               "which FAILED verification");
  EXPECT_EQ(verifications_, 2);
  EXPECT_FLOAT_EQ(third_of_o(), right + 0.5f);
  EXPECT_PRED2(contains, save(kernel_with<Fault::nan_output>()), "which FAILED verification");
  EXPECT_EQ(verifications_, 1);
  EXPECT_TRUE(std::isnan(third_of_o()));
  EXPECT_PRED2(contains, save(kernel_with<Fault::throws_in_launch>()), "Saved nothing");
  EXPECT_EQ(verifications_, 0);
}

}  // namespace
}  // namespace attnlab
