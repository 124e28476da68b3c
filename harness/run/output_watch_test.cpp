// Tests kernels that pass verification and then do less than they are timed for, in many ways.
#include "harness/run/output_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/run/case_steps.h"
#include "harness/run/run.h"
#include "harness/testing/fake_attention.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/fake_telemetry.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Holds what a launch is about to write to one of its outputs.
struct Piece {
  float* to = nullptr;
  std::vector<float> values;
  std::size_t begin = 0, end = 0;  // of the values, those that are written
};

struct Launch {
  int number = 0;  // from 1, of the prepared kernel
  const void* to = nullptr;
  const void* before_to = nullptr;  // of the launch before
  int in_a_row = 0;                 // launches onto these outputs, this one among them
  std::map<std::string, Piece> pieces;

  void skip() {
    for (auto& [name, piece] : pieces) piece.end = piece.begin;
  }
  void skip_half() {
    for (auto& [name, piece] : pieces) piece.end = piece.values.size() / 2;
  }
  bool holds_nan() const {
    const Piece& piece = pieces.begin()->second;
    return std::isnan(piece.to[0]);
  }
};

using Fault = std::function<void(Launch&)>;
Fault fault_of_kernel;

struct State : PreparedKernel {
  Problem problem;
  Launch launch;
};

void add_piece(std::map<std::string, Piece>& pieces, const char* name, void* to,
               std::int64_t elements) {
  const auto size = static_cast<std::size_t>(elements);
  if (to != nullptr) pieces[name] = {static_cast<float*>(to), std::vector<float>(size), 0, size};
}

void forward(const Problem& problem, Tensors tensors, std::map<std::string, Piece>& pieces) {
  tensors.o = pieces.at("o").values.data();
  tensors.lse = pieces.at("lse").values.data();
  fake::for_each_row(problem, tensors,
                     [](const fake::Row& row) { fake::attend(row, row.mask.seqlen_k); });
}

void backward(const Problem& problem, Tensors tensors, std::map<std::string, Piece>& pieces) {
  tensors.dq = pieces.at("dq").values.data();
  tensors.dk = pieces.at("dk").values.data();
  tensors.dv = pieces.at("dv").values.data();
  fake::for_each_row(problem, tensors, fake::differentiate);
}

PreparedKernel* prepare(const Problem& problem, const Config&, const Device&) {
  return new State{{}, problem, {}};
}
void release(PreparedKernel* prepared) { delete static_cast<State*>(prepared); }

void launch(PreparedKernel* prepared, const Tensors& tensors, void*) {
  State& state = *static_cast<State*>(prepared);
  const Problem& problem = state.problem;
  Launch& launch = state.launch;
  const bool is_forward = problem.pass == Pass::fwd;
  ++launch.number;
  launch.before_to = launch.to;
  launch.to = is_forward ? tensors.o : tensors.dq;
  launch.in_a_row = launch.to == launch.before_to ? launch.in_a_row + 1 : 1;
  launch.pieces.clear();
  if (is_forward) {
    add_piece(launch.pieces, "o", tensors.o, problem.elements_q());
    add_piece(launch.pieces, "lse", tensors.lse, problem.elements_lse());
    forward(problem, tensors, launch.pieces);
    if (tensors.saved == nullptr && fault_of_kernel) fault_of_kernel(launch);
  } else {
    add_piece(launch.pieces, "dq", tensors.dq, problem.elements_q());
    add_piece(launch.pieces, "dk", tensors.dk, problem.elements_k());
    add_piece(launch.pieces, "dv", tensors.dv, problem.elements_k());
    backward(problem, tensors, launch.pieces);
    if (fault_of_kernel) fault_of_kernel(launch);
  }
  for (const auto& [name, piece] : launch.pieces) {
    std::copy(piece.values.begin() + static_cast<std::ptrdiff_t>(piece.begin),
              piece.values.begin() + static_cast<std::ptrdiff_t>(piece.end),
              piece.to + piece.begin);
  }
}

// The kernel saves something, so that a forward before a backward is told apart.
std::uint64_t saved_bytes(const Problem&, const Config&) { return 4; }
std::string everything(const Problem&, const Config&, const Device&) { return ""; }

constexpr Implementation kKernel = {.api_version = kApiVersion,
                                    .name = "fake",
                                    .backend = Backend::cpu,
                                    .summary = "plain loops",
                                    .axes = nullptr,
                                    .num_axes = 0,
                                    .unsupported = everything,
                                    .workspace_bytes = fake::no_workspace,
                                    .saved_bytes = saved_bytes,
                                    .prepare = prepare,
                                    .launch = launch,
                                    .release = release,
                                    .traffic = fake::traffic};

// There are so many samples that the watch sees a launch that is left out now and then: with 16,
// each of which checks one random launch, it would miss every third launch once in 650 runs.
constexpr int kSamples = 64;

class OutputWatchTest : public testing::Test {
 protected:
  OutputWatchTest() {
    work_.problem = {
        .num_heads_q = 2, .num_heads_kv = 1, .seqlen_q = 9, .seqlen_k = 7, .head_dim = 8};
    work_.seed = 7;
    work_.competitors = {{.kernel = "fake", .implementation = &kKernel}};
    device_.threads = 1;
    device_.isa = "scalar";
    context_.device = &device_;
    context_.protocol = {.min_rounds = kSamples,
                         .max_rounds = kSamples,
                         .warmup_seconds = 0.0,
                         .warmup_launches = 20};
    context_.memory_limit_bytes = std::uint64_t{1} << 30;
  }
  ~OutputWatchTest() override { fault_of_kernel = nullptr; }

  Record run(const Fault& fault) {
    fault_of_kernel = fault;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    Progress progress(file.get(), case_weight(work_, context_.protocol));
    std::vector<Record> records;
    run_case(work_, context_, progress, [&](const std::vector<Record>& finished) {
      records.insert(records.end(), finished.begin(), finished.end());
    });
    return records.at(0);
  }
  // Expects the point to be invalid, for this reason.
  void expect_caught(const char* name, const Fault& fault, const char* reason) {
    SCOPED_TRACE(name);
    const Record record = run(fault);
    EXPECT_EQ(record.status, Status::invalid) << record.reason;
    EXPECT_PRED2(contains, record.reason, reason);
    EXPECT_FALSE(record.time.has_value());
    EXPECT_FALSE(record.verify.empty()) << "it was right at first";
    for (const reference::Verdict& verdict : record.verify) EXPECT_TRUE(verdict.pass);
  }
  // Leaves room only for what is timed.
  void take_memory_of_spare() {
    context_.memory_limit_bytes = most_bytes(work_.problem, work_.competitors.at(0), device_);
  }

  Case work_;
  Device device_;
  RunContext context_;
};

constexpr const char* kSample = "a timed sample left ";
constexpr const char* kBetween = "an untimed launch between samples left ";
constexpr const char* kEither = " left ";

// These make launches that write nothing, or half, if they are among those meant.
template <class IsMeant>
Fault skip_if(const IsMeant& is_meant) {
  return [is_meant](Launch& launch) {
    if (is_meant(launch)) launch.skip();
  };
}
template <class IsMeant>
Fault halve_if(const IsMeant& is_meant) {
  return [is_meant](Launch& launch) {
    if (is_meant(launch)) launch.skip_half();
  };
}

bool is_after_many(const Launch& launch) { return launch.number > 60; }
bool follows_onto_the_same(const Launch& launch) { return launch.to == launch.before_to; }
bool finds_no_nan(const Launch& launch) { return launch.number > 1 && !launch.holds_nan(); }
bool finds_nan(const Launch& launch) { return launch.number > 1 && launch.holds_nan(); }

TEST_F(OutputWatchTest, ARightKernelIsTimedAndTheRecordSaysWhatWasSeen) {
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    work_.problem.pass = pass;
    const Record record = run(nullptr);
    ASSERT_EQ(record.status, Status::ok) << record.reason;
    const OutputChecks& checks = record.time.value().outputs.value();
    EXPECT_EQ(checks.sets, 2);
    EXPECT_EQ(checks.samples, kSamples);
    ASSERT_GT(record.time->inner_launches, 1);
    EXPECT_EQ(checks.launches, 3 * kSamples);
    EXPECT_EQ(checks.same_bits, true);
    EXPECT_EQ(checks.reason, "");
  }
}

// With samples of one launch each one is looked at, and none follows another onto the same outputs.
TEST_F(OutputWatchTest, LongLaunchesAreLookedAtOneByOne) {
  context_.protocol.warmup_launches = 1;
  const auto slow = [](Launch&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  const Record record = run(slow);
  ASSERT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_EQ(record.time->inner_launches, 1);
  EXPECT_EQ(record.time->outputs.value().launches, kSamples);
  for (const bool has_spare : {true, false}) {
    if (!has_spare) take_memory_of_spare();
    for (const int last : {5, 6}) {
      expect_caught(
          "nothing in every other launch after some",
          [&](Launch& launch) {
            slow(launch);
            if (launch.number > last && (launch.number - last) % 2 == 1) launch.skip();
          },
          last == 5 ? kSample : kBetween);
    }
  }
}

TEST_F(OutputWatchTest, RowsOfLseThatNoEntryHasMayStay) {
  work_.problem.batch = 2;
  work_.problem.layout = Layout::packed;
  work_.problem.lengths = {
      .kind = LengthsKind::packed, .given = true, .queries = {9, 2}, .keys = {7, 3}};
  const auto leave_gap = [](Launch& launch) { launch.pieces.at("lse").end = 2 * 9 + 9 + 2; };
  const Record record = run(leave_gap);
  EXPECT_EQ(record.status, Status::ok) << record.reason;
}

TEST_F(OutputWatchTest, WithoutMemoryThereIsOneSetAndItIsWatched) {
  take_memory_of_spare();
  const Record record = run(nullptr);
  ASSERT_EQ(record.status, Status::ok) << record.reason;
  const OutputChecks& checks = record.time.value().outputs.value();
  EXPECT_EQ(checks.sets, 1);
  EXPECT_EQ(checks.samples, kSamples);
  EXPECT_EQ(checks.launches, 3 * kSamples);
  EXPECT_PRED2(contains, checks.reason, "a second set of outputs needs ");
  expect_caught("nothing after the 60th launch", skip_if(is_after_many), kEither);
  expect_caught("nothing where no NaN is", skip_if(finds_no_nan), kBetween);
}

TEST_F(OutputWatchTest, LaunchesThatDoNothingAreSeen) {
  expect_caught("nothing after the 60th launch", skip_if(is_after_many), kEither);
  expect_caught("nothing in every other launch",
                skip_if([](const Launch& launch) { return launch.number % 2 == 0; }), kBetween);
  for (int period = 2; period < 8; ++period) {
    expect_caught("nothing but in one launch of some",
                  skip_if([=](const Launch& launch) { return launch.number % period != 1; }),
                  kEither);
  }
  expect_caught("nothing in one of some launches",
                skip_if([](const Launch& launch) { return launch.number % 3 == 0; }), kBetween);
  expect_caught("nothing on the outputs of the launch before", skip_if(follows_onto_the_same),
                kBetween);
  expect_caught("nothing where no NaN is", skip_if(finds_no_nan), kBetween);
  expect_caught("nothing where a NaN is", skip_if(finds_nan), kSample);
}

TEST_F(OutputWatchTest, LaunchesThatDoHalfAreSeen) {
  expect_caught("half when repeated on the same output", halve_if(follows_onto_the_same), kBetween);
  for (const int most : {3, 5}) {
    expect_caught("half after some launches in a row onto the same outputs",
                  halve_if([=](const Launch& launch) { return launch.in_a_row > most; }), kBetween);
  }
  expect_caught("half after the 60th launch", halve_if(is_after_many), kEither);
  expect_caught(
      "a row less from the third launch on",
      [](Launch& launch) {
        if (launch.number >= 3) launch.pieces.at("o").end -= 8;
      },
      "8 of 144 elements of o unwritten");
  expect_caught(
      "an element less from the third launch on",
      [](Launch& launch) {
        if (launch.number >= 3) launch.pieces.at("o").begin = 1;
      },
      "1 of 144 elements of o unwritten");
  expect_caught(
      "no lse after the first launch",
      [](Launch& launch) {
        if (launch.number > 1) launch.pieces.at("lse").end = 0;
      },
      "18 of 18 elements of lse unwritten");
}

TEST_F(OutputWatchTest, LaunchesOntoOtherOutputsAreSeen) {
  static std::map<std::string, float*> bound;  // of the third launch, which is the first timed
  const Fault bind = [](Launch& launch) {
    if (launch.number == 1) bound.clear();
    if (launch.number < 2) return;
    for (auto& [name, piece] : launch.pieces) {
      piece.to = bound.emplace(name, piece.to).first->second;
    }
  };
  expect_caught("writes into the first set it was given", bind, kBetween);
  static std::map<std::string, float*> last;
  const Fault late = [](Launch& launch) {
    if (launch.number < 3) last.clear();
    for (auto& [name, piece] : launch.pieces) {
      const auto known = last.find(name);
      float* const before = known == last.end() ? piece.to : known->second;
      last[name] = std::exchange(piece.to, before);
    }
  };
  expect_caught("writes where the launch before should have", late, kEither);
}

TEST_F(OutputWatchTest, BackwardsAreWatchedToo) {
  work_.problem.pass = Pass::bwd;
  for (const char* name : {"dq", "dk", "dv"}) {
    expect_caught(
        name,
        [&](Launch& launch) {
          if (launch.number > 2) launch.pieces.at(name).end -= 1;
        },
        "1 of ");
  }
}

TEST_F(OutputWatchTest, OtherBitsThanThoseVerifiedAreSeen) {
  expect_caught(
      "a result that drifts",
      [](Launch& launch) {
        float& value = launch.pieces.at("o").values[3];
        value *= 1.0f + 0x1p-23f * static_cast<float>(launch.number);
      },
      "other bits in o than the launch that was verified");
  expect_caught(
      "a bit that only the launch that was verified has",
      [](Launch& launch) {
        if (launch.number == 1) launch.pieces.at("o").values[3] *= 1.0f + 0x1p-22f;
      },
      "other bits in o than the launch that was verified");
}

// Leaves tensors whose contents seem to be what it would write.
Fault leave_if(const std::function<bool(const Piece&)>& seems_right) {
  return [seems_right](Launch& launch) {
    for (auto& [name, piece] : launch.pieces) {
      if (seems_right(piece)) piece.end = piece.begin;
    }
  };
}

TEST_F(OutputWatchTest, LaunchesThatLeaveWhatSeemsRightAreSeen) {
  const Fault leave_by_first =
      leave_if([](const Piece& piece) { return piece.to[0] == piece.values[0]; });
  const Fault leave_by_last = leave_if(
      [](const Piece& piece) { return piece.to[piece.values.size() - 1] == piece.values.back(); });
  const Fault leave_results = leave_if([](const Piece& piece) {
    return std::all_of(piece.to, piece.to + piece.values.size(),
                       [](float value) { return std::abs(value) < 100.0f; });
  });
  for (const bool has_spare : {true, false}) {
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      work_.problem.pass = pass;
      if (!has_spare) take_memory_of_spare();
      expect_caught("what begins right", leave_by_first, kBetween);
      expect_caught("what ends right", leave_by_last, kBetween);
      expect_caught("what looks like results", leave_results, kBetween);
    }
  }
}

constexpr ConfigAxis kOrder[] = {
    {"deterministic", "1: sums in a fixed order", 0, 0, 1, {}, AxisRole::fixed_order}};

TEST_F(OutputWatchTest, GradientsInAnyOrderAreJudgedAfterSomeSamples) {
  Implementation kernel = kKernel;
  kernel.axes = kOrder;
  kernel.num_axes = 1;
  work_.competitors.at(0).implementation = &kernel;
  work_.competitors.at(0).config = {{"deterministic", 0}};
  work_.problem.pass = Pass::bwd;
  const auto drifts = [](Launch& launch) {
    launch.pieces.at("dk").values[3] *= 1.0f + 0x1p-23f * static_cast<float>(launch.number % 2);
  };
  EXPECT_EQ(run(drifts).status, Status::ok) << "sums of another order have other bits";
  int last = 0;
  run([&](Launch& launch) { last = launch.number; });
  const Record record = run([&](Launch& launch) {
    if (launch.number > 4 && launch.number < last / 2) launch.pieces.at("dk").values[3] *= 1.5f;
  });
  EXPECT_EQ(record.status, Status::failed) << "dk is right in the last samples";
  EXPECT_PRED2(contains, record.reason, "dk");
}

// Launches for energy go on for seconds, and nobody waits for them.
TEST_F(OutputWatchTest, LaunchesForEnergyAreSeen) {
  fake::Telemetry telemetry;
  telemetry.energy = [start = std::chrono::steady_clock::now()] {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start;
    return 20.0 * std::floor(since.count() / 0.1);
  };
  context_.telemetry = &telemetry;
  int timed = 0;
  ASSERT_EQ(run([&](Launch& launch) { timed = launch.number; }).status, Status::ok);
  context_.measures_energy = true;
  ASSERT_TRUE(run(nullptr).energy.value().use.has_value());
  expect_caught("nothing in all but the timed ones",
                skip_if([&](const Launch& launch) { return launch.number > 2 * timed; }), kSample);
}

}  // namespace
}  // namespace attnlab
