#include "harness/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace attnlab {
namespace {

// What is wrong with a fake kernel.
enum class Fault {
  none,
  nan_output,
  dropped_key,
  wrong_when_repeated,  // right in the launch that is verified first
  throws_in_launch,
  throws_when_repeated,
  throws_in_prepare,
  bad_alloc_in_prepare,
  writes_past_o,
  writes_past_workspace_when_repeated,
  reads_outputs,  // adds to what is there
};

struct FakeState : PreparedKernel {
  Problem problem;
  std::uint64_t workspace_bytes;
  int launches = 0;
};

int live_states = 0;

// One row of attention in f32, straight from the definition.
void attend(const Problem& problem, const Tensors& tensors, const Mask& mask, std::int64_t b,
            std::int64_t h, std::int64_t r, bool drop_last) {
  const Shape shape = make_shape(problem);
  const auto* q = static_cast<const float*>(tensors.q) + shape.q.offset(b, h, r);
  const auto* k = static_cast<const float*>(tensors.k) + shape.k.offset(b, shape.kv_head(h), 0);
  const auto* v = static_cast<const float*>(tensors.v) + shape.k.offset(b, shape.kv_head(h), 0);
  auto* o = static_cast<float*>(tensors.o) + shape.q.offset(b, h, r);
  std::vector<float> scores;
  std::vector<std::int64_t> columns;
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t c = 0; c < mask.seqlen_k - (drop_last ? 1 : 0); ++c) {
    if (!is_visible(mask, r, c)) continue;
    float score = 0.0f;
    for (std::int64_t i = 0; i < shape.head_dim; ++i) score += q[i] * k[c * shape.k.row + i];
    scores.push_back(score * shape.softmax_scale);
    columns.push_back(c);
    largest = std::max(largest, scores.back());
  }
  float sum = 0.0f;
  for (float& score : scores) sum += score = std::exp(score - largest);
  std::fill_n(o, shape.head_dim, 0.0f);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      o[i] += scores[j] / sum * v[columns[j] * shape.k.row + i];
    }
  }
  tensors.lse[shape.row_statistic_offset(b, h, r)] = largest + std::log(sum);
}

template <Fault kFault, std::uint64_t kWorkspace>
struct Fake {
  static std::string unsupported(const Problem&, const Config&, const Device&) { return ""; }
  static std::uint64_t saved_bytes(const Problem&, const Config&) { return 0; }
  static std::uint64_t workspace_bytes(const Problem&, const Config&, const Device&) {
    return kWorkspace;
  }
  static PreparedKernel* prepare(const Problem& problem, const Config&, const Device&) {
    if (kFault == Fault::throws_in_prepare) throw std::runtime_error("cannot prepare");
    if (kFault == Fault::bad_alloc_in_prepare) throw std::bad_alloc();
    ++live_states;
    return new FakeState{{}, problem, kWorkspace};
  }
  static void release(PreparedKernel* prepared) {
    --live_states;
    delete static_cast<FakeState*>(prepared);
  }
  static void launch(PreparedKernel* prepared, const Tensors& tensors, void*) {
    FakeState& state = *static_cast<FakeState*>(prepared);
    const bool repeated = ++state.launches > 1;
    const Problem& problem = state.problem;
    if (kFault == Fault::throws_in_launch) throw std::runtime_error("cannot launch");
    if (kFault == Fault::throws_when_repeated && repeated) throw std::runtime_error("only once");
    float* o = static_cast<float*>(tensors.o);
    const float before = o[0];
    const auto pattern = make_block_pattern(problem);
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      const Mask mask = make_mask(problem, b, view_block_pattern(problem, pattern.data()));
      for (std::int64_t h = 0; h < problem.num_heads_q; ++h) {
        for (std::int64_t r = 0; r < problem.seqlen_q; ++r) {
          attend(problem, tensors, mask, b, h, r, kFault == Fault::dropped_key);
        }
      }
    }
    // The whole workspace is the kernel's own.
    if (tensors.workspace_bytes != kWorkspace) throw std::runtime_error("wrong workspace size");
    std::fill_n(static_cast<unsigned char*>(tensors.workspace), kWorkspace,
                static_cast<unsigned char>(1));
    if (kFault == Fault::nan_output) o[3] = std::numeric_limits<float>::quiet_NaN();
    if (kFault == Fault::wrong_when_repeated && repeated) o[3] += 0.5f;
    if (kFault == Fault::writes_past_o) o[problem.elements_q()] = 0.0f;
    if (kFault == Fault::writes_past_workspace_when_repeated && repeated) {
      static_cast<unsigned char*>(tensors.workspace)[kWorkspace] = 1;
    }
    if (kFault == Fault::reads_outputs) o[0] += before;
  }
  static Traffic traffic(const Problem&, const Config&) {
    Traffic traffic;
    traffic[Operand::q] = {.read_bytes = 100};
    traffic.executed_flops = 12345;
    return traffic;
  }
};

template <Fault kFault, std::uint64_t kWorkspace = 1000>
const Implementation* fake() {
  using F = Fake<kFault, kWorkspace>;
  static constexpr Implementation kImplementation = {.api_version = kApiVersion,
                                                     .name = "fake",
                                                     .backend = Backend::cpu,
                                                     .summary = "plain loops",
                                                     .axes = nullptr,
                                                     .num_axes = 0,
                                                     .unsupported = F::unsupported,
                                                     .workspace_bytes = F::workspace_bytes,
                                                     .saved_bytes = F::saved_bytes,
                                                     .prepare = F::prepare,
                                                     .launch = F::launch,
                                                     .release = F::release,
                                                     .traffic = F::traffic};
  return &kImplementation;
}

Competitor competitor(const char* name, const Implementation* implementation) {
  return {.kernel = name, .implementation = implementation};
}

class RunCase : public testing::Test {
 protected:
  RunCase() {
    work_.problem = {.batch = 2,
                     .num_heads_q = 4,
                     .num_heads_kv = 2,
                     .seqlen_q = 17,
                     .seqlen_k = 33,
                     .head_dim = 8};
    work_.seed = 7;
    device_.threads = 2;
    device_.isa = "scalar";
    context_.device = &device_;
    context_.protocol = {.min_rounds = 3, .max_rounds = 3, .warmup_seconds = 0.0};
    context_.sweep_name = "test";
    context_.command_line = "attnlab run test";
    context_.memory_limit_bytes = std::uint64_t{1} << 30;
  }
  ~RunCase() override { EXPECT_EQ(live_states, 0) << "every prepared kernel is released"; }

  std::vector<Record> run(std::vector<Competitor> competitors) {
    work_.competitors = std::move(competitors);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    Progress progress(file.get(), case_weight(work_));
    std::vector<Record> records;
    run_case(work_, context_, progress, [&](const Record& record) {
      records.push_back(record);
      live_states_at_record_.push_back(live_states);
    });
    progress.begin("after");
    std::string text(10000, '\0');
    std::rewind(file.get());
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    EXPECT_NE(text.find("100%  0:00 left  after"), std::string::npos) << text;
    return records;
  }
  Record run_one(const Implementation* implementation) {
    const std::vector<Record> records = run({competitor("fake", implementation)});
    EXPECT_EQ(records.size(), 1u);
    return records.at(0);
  }
  // A point that fails before it is timed says why, and how to see it again.
  void expect_failure(const Record& record, const std::string& cause) {
    EXPECT_EQ(record.status, Status::failed) << record.reason;
    EXPECT_NE(record.reason.find(work_.problem.id()), std::string::npos) << record.reason;
    EXPECT_NE(record.reason.find(cause), std::string::npos) << record.reason;
    EXPECT_NE(record.reason.find("reproduce: attnlab run --backend cpu --isa "), std::string::npos)
        << record.reason;
    EXPECT_FALSE(record.time.has_value());
  }

  Case work_;
  std::vector<int> live_states_at_record_;
  Device device_;
  RunContext context_;
};

TEST_F(RunCase, ACorrectKernelGivesACompleteRecord) {
  const Record record = run_one(fake<Fault::none>());
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
    const Record record = run_one(fake<Fault::none>());
    EXPECT_EQ(record.status, Status::ok) << record.reason;
  }
  work_.problem.mask = parse_mask("causal");
  work_.problem.lengths = {};
  work_.problem.seqlen_k = 5;  // the first 12 rows see nothing
  const Record record = run_one(fake<Fault::none>());
  EXPECT_EQ(record.status, Status::ok) << record.reason;
}

TEST_F(RunCase, ThePeakIsTheCompetitorsOwn) {
  const std::vector<Record> records = run({competitor("small", fake<Fault::none, 64>()),
                                           competitor("large", fake<Fault::none, 100000>()),
                                           competitor("none", fake<Fault::none, 0>())});
  ASSERT_EQ(records.size(), 3u);
  for (const Record& record : records) {
    ASSERT_EQ(record.status, Status::ok) << record.reason;
    const Memory& memory = *record.memory;
    EXPECT_EQ(memory.peak_bytes, memory.inputs_bytes + memory.outputs_bytes + memory.saved_bytes +
                                     memory.workspace_bytes);
  }
  EXPECT_EQ(records[0].memory->workspace_bytes, 64u);
  EXPECT_EQ(records[1].memory->workspace_bytes, 100000u);
}

TEST_F(RunCase, WrongKernelsFailAndTheOthersGoOn) {
  const std::vector<Record> records =
      run({competitor("fake", fake<Fault::nan_output>()), competitor("good", fake<Fault::none>()),
           competitor("fake", fake<Fault::dropped_key>()),
           competitor("fake", fake<Fault::reads_outputs>()),
           competitor("fake", fake<Fault::writes_past_o>())});
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
  const Record record = run_one(fake<Fault::wrong_when_repeated>());
  expect_failure(record, "o: ");
  ASSERT_FALSE(record.verify.empty());
  EXPECT_TRUE(record.verify[0].pass);
  ASSERT_FALSE(record.verify_timed.empty());
  EXPECT_FALSE(record.verify_timed[0].pass);
}

TEST_F(RunCase, AnOverrunInATimedLaunchSpoilsTheTimesOfAll) {
  const std::vector<Record> records =
      run({competitor("good", fake<Fault::none>()),
           competitor("fake", fake<Fault::writes_past_workspace_when_repeated>())});
  for (const Record& record : records) {
    EXPECT_EQ(record.status, Status::failed);
    EXPECT_NE(record.reason.find("wrote outside workspace"), std::string::npos) << record.reason;
    EXPECT_FALSE(record.time.has_value());
  }
}

TEST_F(RunCase, ExceptionsAreRecords) {
  const std::vector<Record> records = run({competitor("a", fake<Fault::throws_in_launch>()),
                                           competitor("b", fake<Fault::throws_in_prepare>()),
                                           competitor("c", fake<Fault::bad_alloc_in_prepare>()),
                                           competitor("d", fake<Fault::throws_when_repeated>()),
                                           competitor("e", fake<Fault::none>())});
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
  Competitor unsupported = competitor("a", fake<Fault::none>());
  unsupported.unsupported = "head_dim is odd";
  Competitor skipped = competitor("b", fake<Fault::none>());
  skipped.skipped = "too slow";
  const std::vector<Record> records =
      run({competitor("e", fake<Fault::none>()), unsupported, skipped, competitor("v9", nullptr)});
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].status, Status::unsupported);
  EXPECT_EQ(records[0].reason, "head_dim is odd");
  EXPECT_EQ(records[1].status, Status::skipped);
  EXPECT_EQ(records[1].reason, "too slow");
  EXPECT_EQ(records[2].status, Status::unsupported);
  EXPECT_NE(records[2].reason.find("'v9'"), std::string::npos);
  EXPECT_EQ(records[3].status, Status::ok);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(records[static_cast<std::size_t>(i)].time.has_value());

  work_.problem.pass = Pass::bwd;
  EXPECT_EQ(run_one(fake<Fault::none>()).status, Status::unsupported);
}

// 2^62 bytes would be refused by the allocator too, so the message tells who refused.
TEST_F(RunCase, SizesThatDoNotFitAreRefusedBeforeAllocation) {
  const std::vector<Record> records =
      run({competitor("huge", fake<Fault::none, std::uint64_t{1} << 62>()),
           competitor("good", fake<Fault::none>())});
  EXPECT_EQ(records[0].status, Status::out_of_memory);
  EXPECT_NE(records[0].reason.find("of 1 GiB available: shorten"), std::string::npos)
      << records[0].reason;
  EXPECT_EQ(records[0].memory->workspace_bytes, std::uint64_t{1} << 62);
  EXPECT_FALSE(records[0].memory->peak_bytes.has_value());
  EXPECT_EQ(records[1].status, Status::ok);

  // Sizes of the tensors themselves.
  work_.problem.num_heads_q = std::int64_t{1} << 40;
  EXPECT_EQ(run_one(fake<Fault::none>()).status, Status::out_of_memory);
}

TEST_F(RunCase, WorkspaceIsSharedAndOutputsAreCounted) {
  // Room for inputs, one workspace and two sets of outputs, not three.
  const std::uint64_t q_bytes = 2 * 4 * 17 * 8 * 4, k_bytes = 2 * 2 * 33 * 8 * 4;
  const std::uint64_t lse_bytes = 2 * 4 * 17 * 4, workspace = 100000;
  context_.memory_limit_bytes = q_bytes + 2 * k_bytes + workspace + 2 * (q_bytes + lse_bytes);
  const Competitor one = competitor("fake", fake<Fault::none, workspace>());
  const std::vector<Record> records = run({one, one, one});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].status, Status::out_of_memory);
  EXPECT_NE(records[0].reason.find("run it alone, attnlab run"), std::string::npos);
  EXPECT_EQ(records[1].status, Status::ok) << records[1].reason;
  EXPECT_EQ(records[2].status, Status::ok) << records[2].reason;
}

TEST_F(RunCase, CompetitorsAreInterleaved) {
  const std::vector<Record> records =
      run({competitor("a", fake<Fault::none>()), competitor("b", fake<Fault::none>())});
  ASSERT_EQ(records.size(), 2u);
  for (std::size_t round = 0; round < 3; ++round) {
    EXPECT_EQ(records[0].order.at(round) + records[1].order.at(round), 1);
  }
}

TEST_F(RunCase, AFailingSinkStopsTheCase) {
  work_.competitors = {competitor("v9", nullptr), competitor("fake", fake<Fault::none>())};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Progress progress(file.get(), case_weight(work_));
  EXPECT_THROW(run_case(work_, context_, progress,
                        [](const Record&) { throw std::runtime_error("disk full"); }),
               std::runtime_error);
}

TEST(CaseWeight, GrowsWithWorkAndIgnoresWhatDoesNotRun) {
  Case work;
  work.problem = {.num_heads_q = 8, .num_heads_kv = 8, .seqlen_q = 4096, .seqlen_k = 4096};
  work.competitors = {competitor("fake", fake<Fault::none>())};
  const double one = case_weight(work);
  EXPECT_GT(one, 4.0 * 8 * 4096 * 4096 * 64);
  work.competitors.push_back(work.competitors[0]);
  EXPECT_DOUBLE_EQ(case_weight(work), 2 * one);
  work.competitors[1].unsupported = "no";
  EXPECT_DOUBLE_EQ(case_weight(work), one);
  work.problem.mask = parse_mask("causal");
  EXPECT_LT(case_weight(work), one);
}

}  // namespace
}  // namespace attnlab
