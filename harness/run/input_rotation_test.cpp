#include "harness/run/input_rotation.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "harness/plan/accounting.h"
#include "harness/plan/protocol.h"
#include "harness/run/ending.h"
#include "harness/run/ways_to_time.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/fake_runtime.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

constexpr std::uint64_t kSavedBytes = 48;

std::uint64_t saved_bytes(const Problem&, const Config&) { return kSavedBytes; }
std::vector<const void*> launched_q;
void leave_something(PreparedKernel*, const Tensors& tensors, void* stream) {
  launched_q.push_back(tensors.q);
  auto& device = *static_cast<fake::SeparateMemory*>(stream);
  device.fill(tensors.o, 1, 8);
  device.fill(tensors.lse, 2, 8);
  device.fill(tensors.saved, 3, kSavedBytes);
}

constexpr Implementation make_kernel() {
  Implementation kernel = fake::make("fake", Backend::cuda, false);
  kernel.saved_bytes = saved_bytes;
  kernel.launch = leave_something;
  return kernel;
}
constexpr Implementation kKernel = make_kernel();

class Rotation : public testing::Test {
 protected:
  // Returns tensors of a launch of the pass; for a backward, its forward is done.
  std::vector<Tensors> sets() {
    competitor_ = {
        .kernel = "fake", .backend = Backend::cuda, .implementation = &kKernel, .config = {}};
    run_.competitor = &competitor_;
    run_.record.point.problem = problem_;
    run_.record.memory = memory_needed(problem_, competitor_, gpu_);
    inputs_.emplace(arena_, problem_, InputKind::normal, 3, 1);
    if (problem_.pass == Pass::bwd) {
      EXPECT_EQ(run_.run_forward(arena_, problem_, gpu_, inputs_->tensors()), "");
    }
    run_.outputs.emplace(run_.make_outputs(arena_, problem_));
    workspace_ = arena_.allocate("workspace", 16);
    run_.tensors = run_.attach(inputs_->tensors(), *run_.outputs, workspace_);
    rotation_.emplace(arena_, gpu_, protocol_);
    rotation_->add(problem_, *inputs_);
    return rotation_->sets_of(run_);
  }

  std::vector<std::uint8_t> read(const void* data, std::uint64_t bytes) {
    std::vector<std::uint8_t> contents(bytes);
    device_.read(contents.data(), data, bytes);
    return contents;
  }

  // Checks that each set has a tensor of its own, with the bytes of the first.
  template <class Of>
  void expect_copies(const std::vector<Tensors>& all, Of of, std::uint64_t bytes) {
    std::set<const void*> places;
    for (const Tensors& set : all) {
      const void* const place = std::invoke(of, set);
      places.insert(place);
      EXPECT_EQ(read(place, bytes), read(std::invoke(of, all.front()), bytes));
    }
    EXPECT_EQ(places.size(), all.size());
    EXPECT_FALSE(places.contains(nullptr));
  }
  template <class Member>
  void expect_shared(const std::vector<Tensors>& all, Member member) {
    for (const Tensors& set : all) EXPECT_EQ(set.*member, all.front().*member);
  }

  fake::SeparateMemory device_;
  Device gpu_ = {.backend = Backend::cuda, .name = "fake", .l2_bytes = 4096};
  Protocol protocol_ = {.cache = CacheState::cold};
  Problem problem_ = {
      .num_heads_q = 2, .num_heads_kv = 2, .seqlen_q = 8, .seqlen_k = 8, .head_dim = 16};
  Arena arena_{device_};
  Competitor competitor_;
  std::optional<Inputs> inputs_;
  CompetitorRun run_{};
  Arena::Buffer workspace_;
  std::optional<InputRotation> rotation_;
};

TEST_F(Rotation, HasMoreThanThreeTimesTheCache) {
  const std::uint64_t bytes = bytes_of_inputs(problem_);
  EXPECT_EQ(bytes, 3u * 1024u);
  EXPECT_EQ(InputRotation::count(problem_, gpu_, protocol_), 5);  // 4 * 3072 = 3 * 4096
  gpu_.l2_bytes = 0;
  EXPECT_EQ(InputRotation::count(problem_, gpu_, protocol_), 1);
  gpu_.l2_bytes = std::uint64_t{1} << 40;
  EXPECT_EQ(InputRotation::count(problem_, gpu_, protocol_), 2048);
  protocol_.cache = CacheState::hot;
  EXPECT_EQ(InputRotation::count(problem_, gpu_, protocol_), 1);
}

// Samples of one launch, too, must not meet the same inputs again.
TEST_F(Rotation, LaunchesGoOnWhereTheSampleBeforeEnded) {
  problem_.pass = Pass::bwd;
  const std::vector<Tensors> all = sets();
  ASSERT_EQ(all.size(), 4u);
  const WaysToTime ways = ways_to_time({&run_}, *rotation_, device_, [] {});
  launched_q.clear();
  for (int sample = 0; sample < 2 * 4; ++sample) {
    EXPECT_EQ(ways.launches.at(0).time(1), 1e-3);
    // The competitor has copies of its own, in the same order; the first is the inputs themselves.
    EXPECT_EQ(launched_q.back() == all[0].q, sample % 4 == 0) << sample;
  }
  EXPECT_EQ(std::set(launched_q.begin(), launched_q.end()).size(), 4u);
  EXPECT_EQ(launched_q[3], launched_q[7]);
}

// Writes all outputs of a forward.
void write_all(PreparedKernel*, const Tensors& tensors, void* stream) {
  auto& device = *static_cast<fake::SeparateMemory*>(stream);
  device.fill(tensors.o, 1, 1024);
  device.fill(tensors.lse, 2, 64);
}

class RotationOfWriters : public Rotation {
 protected:
  // Makes this the kernel, and what write_all() leaves what was verified.
  void run_with(const Implementation& kernel) {
    protocol_.cache = CacheState::hot;
    static_cast<void>(sets());
    competitor_.implementation = &kernel;
    const Outputs verified = run_.make_outputs(arena_, problem_);
    write_all(nullptr, verified.attach({}), &device_);
    run_.verified = verified.contents();
  }
};

TEST_F(RotationOfWriters, ReplaysOfGraphsAreSeenByWhatTheyWrite) {
  static Implementation kernel = kKernel;
  kernel.launch = write_all;
  ASSERT_EQ(bytes_like_q(problem_), 1024u);
  ASSERT_EQ(bytes_of_lse(problem_), 64u);
  run_with(kernel);
  const WaysToTime ways = ways_to_time({&run_}, *rotation_, device_, [] {});
  const TimedLaunches& graph = ways.graphs.at(0);
  device_.has_graphs = true;
  EXPECT_EQ(graph.time(2), 2e-3);
  EXPECT_NO_THROW(graph.check());
  EXPECT_EQ(run_.checks.samples, 1);
  device_.graphs_do_nothing = true;
  EXPECT_EQ(graph.time(2), 2e-3);
  EXPECT_THROW(graph.check(), Ending);
}

// The launch that is checked differs from sample to sample, so that no periodic fault evades it.
TEST_F(RotationOfWriters, LooksFollowAnotherLaunchFromSampleToSample) {
  static int launches = 0;
  static Implementation kernel = kKernel;
  kernel.launch = [](PreparedKernel* state, const Tensors& tensors, void* stream) {
    ++launches;
    write_all(state, tensors, stream);
  };
  run_with(kernel);
  run_.spare.emplace(run_.make_outputs(arena_, problem_));
  const WaysToTime ways = ways_to_time({&run_}, *rotation_, device_, [] {});
  const TimedLaunches& timed = ways.launches.at(0);
  constexpr int kSamples = 40;
  for (const int of_a_sample : {16, 32, 48, 256}) {
    std::set<int> places, odd;
    for (int sample = 0; sample < kSamples; ++sample) {
      launches = 0;
      timed.prepare(of_a_sample);
      places.insert(launches);
      odd.insert(launches % 2);
      timed.time(of_a_sample);
      timed.check();
    }
    EXPECT_GT(places.size(), 10u) << of_a_sample;
    EXPECT_EQ(odd.size(), 2u) << of_a_sample;
    EXPECT_GE(*places.begin(), 3);
    EXPECT_LE(*places.rbegin(), of_a_sample + 2);
  }
}

// Launches that were queued too late are made again, onto outputs that are poisoned again.
TEST_F(RotationOfWriters, TimingsThatAreMadeAgainAreSeenByWhatTheyWrite) {
  static int writes = 0;  // launches that will still write
  static Implementation kernel = kKernel;
  kernel.launch = [](PreparedKernel* state, const Tensors& tensors, void* stream) {
    if (writes-- > 0) write_all(state, tensors, stream);
  };
  run_with(kernel);
  run_.spare.emplace(run_.make_outputs(arena_, problem_));
  const WaysToTime ways = ways_to_time({&run_}, *rotation_, device_, [] {});
  const TimedLaunches& timed = ways.launches.at(0);
  const auto sample = [&](int writing) {
    writes = writing;
    timed.prepare(1);
    timed.time(1);
    timed.check();
  };
  device_.is_late = true;
  EXPECT_NO_THROW(sample(4));  // it launches onto the spare, the timed, and both again
  EXPECT_THROW(sample(3), Ending);
}

TEST_F(RotationOfWriters, LaunchesThatLoadTheDeviceLeaveThePoison) {
  static Implementation kernel = kKernel;
  kernel.launch = write_all;
  run_with(kernel);
  for (const bool has_spare : {true, false}) {
    run_.spare.reset();
    if (has_spare) run_.spare.emplace(run_.make_outputs(arena_, problem_));
    const WaysToTime ways = ways_to_time({&run_}, *rotation_, device_, [] {});
    const TimedLaunches& timed = ways.launches.at(0);
    timed.prepare(2);
    EXPECT_NE(timed.load(2), 2e-3) << "not the timer's, which waits until all are queued";
    EXPECT_THROW(timed.check(), Ending) << "no sample ran";
    timed.prepare(2);
    timed.load(2);
    timed.time(2);
    EXPECT_NO_THROW(timed.check());
    EXPECT_EQ(run_.checks.sets, has_spare ? 2 : 1);
  }
}

TEST_F(Rotation, APeerWritesAsManyBytesBeforeASample) {
  static_cast<void>(sets());
  PeerProcess process({.python = "python3", .script = in_tree("tests/data/fake_peer.py")});
  const Inputs host(arena_, problem_, InputKind::normal, 3, 1);
  PeerInputs inputs(problem_, host.host());
  run_.record.point.problem = problem_;
  run_.peer = std::make_unique<LibraryPeer>(process, "torch:flash", Device{.threads = 1});
  run_.peer->prepare(inputs);
  const WaysToTime ways = ways_to_time({&run_}, *rotation_, device_, [] {});
  const TimedLaunches& timed = ways.launches.at(0);
  timed.prepare(3);
  EXPECT_DOUBLE_EQ(timed.time(3), 3e-3);
  EXPECT_EQ(timed.launches_ahead(), 0);
  EXPECT_DOUBLE_EQ(timed.time_under_load(3), 3e-3);
  EXPECT_EQ(timed.launches_ahead(), 3);
  EXPECT_DOUBLE_EQ(timed.load(3), 6e-3);
  EXPECT_DOUBLE_EQ(ways.queued.at(0).time(3), 6e-3);
  timed.check();
  EXPECT_EQ(run_.checks.sets, 0);
  EXPECT_EQ(run_.checks.launches, 1);
  EXPECT_PRED2(contains, run_.checks.reason, "before each sample it wrote 1024 bytes");
  run_.peer.reset();
}

TEST_F(Rotation, HotIsTheInputsThemselves) {
  protocol_.cache = CacheState::hot;
  const std::vector<Tensors> all = sets();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].q, inputs_->tensors().q);
  EXPECT_EQ(all[0].v, inputs_->tensors().v);
  EXPECT_EQ(all[0].o, run_.tensors.o);
}

TEST_F(Rotation, ForwardsGetInputsOfTheirOwn) {
  const std::vector<Tensors> all = sets();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].q, inputs_->tensors().q);
  expect_copies(all, &Tensors::q, bytes_like_q(problem_));
  expect_copies(all, &Tensors::k, bytes_like_k(problem_));
  expect_copies(all, &Tensors::v, bytes_like_k(problem_));
  expect_shared(all, &Tensors::o);
  expect_shared(all, &Tensors::lse);
  expect_shared(all, &Tensors::workspace);
  EXPECT_EQ(all[4].dout, nullptr);
  EXPECT_EQ(arena_.restore_guards(), "");
}

// A kernel on e4m3 reads codes and scales: only copies of these keep it from finding them in a
// cache.
TEST_F(Rotation, CodesAndScalesRotate) {
  problem_.dtype = Dtype::e4m3;
  const std::vector<Tensors> all = sets();
  ASSERT_EQ(all.size(), 14u);  // 14 * (3 * 256 codes + 4 * 36 bytes of scales) > 3 * 4096
  for_each_of_e4m3(problem_, [&]<class T>(const char* name, const T* E4m3Inputs::*member,
                                          T* E4m3Outputs::*, std::int64_t elements) {
    SCOPED_TRACE(name);
    EXPECT_EQ(all[0].e4m3.*member, inputs_->tensors().e4m3.*member);
    expect_copies(
        all, [member](const Tensors& set) { return set.e4m3.*member; },
        static_cast<std::uint64_t>(elements) * sizeof(T));
  });
  expect_shared(all, &Tensors::q);
  expect_shared(all, &Tensors::o);
  EXPECT_EQ(arena_.restore_guards(), "");
}

TEST_F(Rotation, BackwardsAlsoGetWhatTheirForwardLeft) {
  problem_.pass = Pass::bwd;
  gpu_.l2_bytes = 8192;
  const std::vector<Tensors> all = sets();
  ASSERT_EQ(all.size(), 7u);  // 3 * 8192 / 4096 + 1
  EXPECT_EQ(all[0].o, run_.tensors.o);
  expect_copies(all, &Tensors::dout, bytes_like_q(problem_));
  expect_copies(all, &Tensors::o, bytes_like_q(problem_));
  expect_copies(all, &Tensors::lse, bytes_of_lse(problem_));
  expect_copies(all, &Tensors::saved, kSavedBytes);
  EXPECT_EQ(read(all[6].saved, kSavedBytes), std::vector<std::uint8_t>(kSavedBytes, 3));
  expect_shared(all, &Tensors::dq);
  expect_shared(all, &Tensors::dk);
  expect_shared(all, &Tensors::dv);
}

TEST_F(Rotation, ABothWaysPassMakesItsOwnForward) {
  problem_.pass = Pass::fwdbwd;
  const std::vector<Tensors> all = sets();
  ASSERT_EQ(all.size(), 4u);
  expect_copies(all, &Tensors::dout, bytes_like_q(problem_));
  expect_shared(all, &Tensors::o);
  expect_shared(all, &Tensors::saved);
}

TEST_F(Rotation, WorksWhereTheDeviceIsTheHost) {
  Arena arena;
  const Inputs inputs(arena, problem_, InputKind::normal, 3, 1);
  const std::uint64_t before = arena.current_bytes();
  {
    InputRotation rotation(arena, gpu_, protocol_);
    rotation.add(problem_, inputs);
    EXPECT_EQ(arena.current_bytes(), 5 * before);
  }
  EXPECT_EQ(arena.current_bytes(), before);
}

}  // namespace
}  // namespace attnlab
