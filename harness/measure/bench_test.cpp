#include "harness/measure/bench.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "harness/plan/protocol.h"
#include "harness/testing/fake_telemetry.h"
#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

using namespace std::chrono_literals;

// Allows no warm-up beyond the first launch, and asks for an interval that is never reached.
Protocol rounds(int minimum, int maximum) {
  return {.min_rounds = minimum, .max_rounds = maximum, .interval = 0.0, .warmup_seconds = 0.0};
}

void ignore_round(int) {}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns launches that claim to take so long each, and end at once.
TimedLaunches saying(
    const char* name, double launch_s, std::function<void()> launch = [] {}) {
  return {name, [launch_s, launch = std::move(launch)](int launches) {
            for (int i = 0; i < launches; ++i) launch();
            return launch_s * launches;
          }};
}

// Returns launches whose calls claim these times in turn, for samples that are not all the same.
TimedLaunches saying_in_turns(const char* name, std::vector<double> launch_s) {
  return {name, [launch_s = std::move(launch_s), call = std::size_t{0}](int launches) mutable {
            return launch_s[call++ % launch_s.size()] * launches;
          }};
}

TEST(Bench, EveryRoundHoldsEachOnce) {
  std::vector<int> reported;
  const auto samples =
      measure({saying("a", 2e-3), saying("b", 3e-3), saying("c", 1.5e-3)}, rounds(6, 6),
              Backend::cpu, [&](int round) { reported.push_back(round); });
  ASSERT_EQ(samples.size(), 3u);
  for (std::size_t round = 0; round < 6; ++round) {
    std::set<int> places;
    for (const Samples& one : samples) places.insert(one.order.at(round));
    EXPECT_EQ(places, (std::set<int>{0, 1, 2})) << round;
  }
  EXPECT_EQ(reported, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(samples[1].seconds, std::vector<double>(6, 3e-3));
}

TEST(Bench, WhatComesBeforeALaunchIsNotTimed) {
  std::string calls;
  TimedLaunches timed = saying("a", 2e-3, [&] { calls += "launch; "; });
  timed.before = [&] { calls += "before, "; };
  const auto samples = measure({timed}, rounds(2, 2), Backend::cpu, ignore_round);
  EXPECT_EQ(calls, "before, launch; before, launch; before, launch; ") << "the first warms up";
  EXPECT_EQ(samples.at(0).seconds, (std::vector<double>{2e-3, 2e-3})) << "as the launches say";
}

TEST(Bench, WhatBelongsToASampleIsAroundIt) {
  std::string calls;
  TimedLaunches timed = saying("a", 2e-3);
  timed.prepare = [&](int launches) { calls += "prepare " + std::to_string(launches) + ", "; };
  timed.load = [&](int launches) {
    calls += "load " + std::to_string(launches) + ", ";
    return 1.0;
  };
  timed.time = [&](int launches) {
    calls += "time " + std::to_string(launches) + ", ";
    return 2e-3;
  };
  timed.check = [&] { calls += "check; "; };
  Protocol protocol = rounds(1, 1);
  measure({timed}, protocol, Backend::cpu, ignore_round);
  EXPECT_EQ(calls, "time 1, prepare 1, time 1, check; ") << "the first warms up";
  calls.clear();
  protocol.regime = Regime::settled;
  timed.time = [&](int) {
    calls += "time, ";
    return 2.0;
  };
  measure({timed}, protocol, Backend::cuda, ignore_round);
  EXPECT_EQ(calls, "time, prepare 1, load 1, time, check; ") << "onto what is not timed";
}

TEST(Bench, WhatASampleLeavesCanEndTheSamples) {
  int checks = 0;
  TimedLaunches timed = saying("a", 2e-3);
  timed.check = [&] {
    if (++checks == 2) throw std::runtime_error("nothing was written");
  };
  const auto samples =
      measure({timed, saying("b", 1e-3)}, rounds(4, 4), Backend::cpu, ignore_round);
  EXPECT_EQ(samples.at(0).seconds.size(), 1u) << "what was not right is no sample";
  EXPECT_TRUE(samples[0].error != nullptr);
  EXPECT_EQ(samples.at(1).seconds.size(), 4u);
}

TEST(Bench, WhatComesBeforeALaunchCanEndTheSamples) {
  int calls = 0;
  TimedLaunches timed = saying("a", 2e-3);
  timed.before = [&] {
    if (++calls == 3) throw std::runtime_error("enough");
  };
  const auto samples =
      measure({timed, saying("b", 1e-3)}, rounds(4, 4), Backend::cpu, ignore_round);
  EXPECT_EQ(samples.at(0).seconds.size(), 1u);
  EXPECT_TRUE(samples[0].error != nullptr);
  EXPECT_EQ(samples.at(1).seconds.size(), 4u);
  EXPECT_EQ(calls, 3);
}

TEST(Bench, TheOrderIsShuffled) {
  const auto samples =
      measure({saying("a", 1e-3), saying("b", 1e-3)}, rounds(40, 40), Backend::cpu, ignore_round);
  const std::set<int> places(samples[0].order.begin(), samples[0].order.end());
  EXPECT_EQ(places.size(), 2u) << "one order 40 times: probability 2^-39";
}

TEST(Bench, ShortLaunchesAreRepeatedInsideASample) {
  constexpr double kLaunch = 1.0 / 8192;  // the ninth ends 1 ms
  int calls = 0, launches = 0, launches_before = 0;
  const TimedLaunches timed = {"short", [&](int count) {
                                 launches += count;
                                 return (++calls == 1 ? 4.0 : 1.0) * kLaunch * count;
                               }};
  Protocol protocol = rounds(2, 2);
  protocol.warmup_launches = 3;
  const auto samples = measure({timed}, protocol, Backend::cpu, [&](int round) {
    if (round == 1) launches_before = launches;
  });
  EXPECT_EQ(samples[0].inner_launches, 9) << "the fastest launch of the warm-up counts";
  EXPECT_EQ(launches - launches_before, 9);
  EXPECT_EQ(samples[0].seconds, (std::vector<double>{kLaunch, kLaunch})) << "of a launch";
  EXPECT_EQ(
      measure({saying("long", 2e-3)}, rounds(1, 1), Backend::cpu, ignore_round)[0].inner_launches,
      1);
}

TEST(Bench, StopsWhenTheIntervalIsNarrow) {
  Protocol protocol = rounds(4, 50);
  protocol.interval = 10.0;  // any interval is within 1000 %
  EXPECT_EQ(measure({saying("a", 1e-3)}, protocol, Backend::cpu, ignore_round)[0].seconds.size(),
            4u);
  EXPECT_EQ(
      measure({saying_in_turns("a", {1e-3, 2e-3})}, rounds(4, 11), Backend::cpu, ignore_round)[0]
          .seconds.size(),
      11u);
}

TEST(Bench, StopsWhatHasUsedItsTime) {
  Protocol protocol = rounds(5, 8);
  protocol.max_seconds = 0.1;
  const auto samples = measure({saying("slow", 40e-3), saying_in_turns("fast", {1e-3, 2e-3})},
                               protocol, Backend::cpu, ignore_round);
  EXPECT_EQ(samples[0].seconds.size(), 3u) << "after two 20 ms were left";
  EXPECT_EQ(samples[1].seconds.size(), 8u) << "the others go on";
  EXPECT_EQ(samples[0].rounds_asked, 5) << "which it did not get";
}

TEST(Bench, TenRoundsOfLongLaunchesAreEnoughUnlessTheNumberIsExact) {
  Protocol protocol = rounds(12, 13);
  protocol.interval = 10.0;
  const auto take = [&] {
    return measure({saying("long", 51e-3)}, protocol, Backend::cpu, ignore_round)[0];
  };
  const Samples few = take();
  EXPECT_EQ(few.seconds.size(), 10u);
  EXPECT_EQ(few.rounds_asked, 10);
  protocol.max_rounds = 12;
  const Samples exact = take();
  EXPECT_EQ(exact.seconds.size(), 12u);
  EXPECT_EQ(exact.rounds_asked, 12);
}

TEST(Bench, WarmsUpForTheTimeAsked) {
  Protocol protocol = rounds(1, 1);
  protocol.warmup_seconds = 8.0 / 256;
  int launches = 0;
  measure({saying("a", 1.0 / 256, [&] { ++launches; })}, protocol, Backend::cpu, ignore_round);
  EXPECT_EQ(launches, 8 + 1);
}

// Launches of 32 us one by one are no load for a GPU: each waits longer for the host.
TEST(Bench, AllButTheFirstLaunchesOfAWarmUpAreCallsOfASample) {
  constexpr double kLaunch = 1.0 / (1 << 15);
  std::vector<int> calls;
  const TimedLaunches timed = {"short", [&](int launches) {
                                 calls.push_back(launches);
                                 return (calls.size() < 10 ? 2.0 : 1.0) * kLaunch * launches;
                               }};
  Protocol protocol = rounds(1, 1);
  protocol.warmup_seconds = 5e-3;
  const auto samples = measure({timed}, protocol, Backend::cuda, ignore_round);
  EXPECT_EQ(calls, (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 17, 17, 17, 17, 17, 17, 17, 17, 33}));
  EXPECT_EQ(samples[0].inner_launches, 33) << "the fastest call of the warm-up counts";
}

TEST(Bench, EachStepTakesItsTurn) {
  std::string steps;
  const auto measured = measure({saying("a", 2e-3, [&] { steps += "launch, "; })}, rounds(2, 2),
                                Backend::cpu, ignore_round, nullptr, [&](TurnStep step, int round) {
                                  steps += step == TurnStep::warm_up  ? "warm up"
                                           : step == TurnStep::sample ? "sample"
                                                                      : "leave";
                                  steps += " " + std::to_string(round) + ": ";
                                });
  EXPECT_EQ(steps, "warm up 0: launch, sample 1: launch, sample 2: launch, leave 0: ");
}

TEST(Bench, AThrowingOneIsReportedAndTheOthersGoOn) {
  int launches = 0;
  const auto throws_on = [&launches](int which) {
    return [&launches, which] {
      if (++launches == which) throw std::runtime_error("no more");
    };
  };
  const auto samples = measure({saying("bad", 2e-3, throws_on(3)), saying("good", 2e-3)},
                               rounds(4, 4), Backend::cpu, ignore_round);
  EXPECT_THROW(std::rethrow_exception(samples[0].error), std::runtime_error);
  EXPECT_EQ(samples[0].seconds.size(), 1u);
  EXPECT_EQ(samples[1].error, nullptr);
  EXPECT_EQ(samples[1].seconds.size(), 4u);

  launches = 0;
  const auto in_warm_up =
      measure({saying("bad", 2e-3, throws_on(1))}, rounds(4, 4), Backend::cpu, ignore_round);
  EXPECT_NE(in_warm_up[0].error, nullptr);
  EXPECT_TRUE(in_warm_up[0].seconds.empty());
}

// Pretends to be a GPU whose launches each take so long; they end at once.
struct FakeGpu {
  double launch_s;
  int calls = 0;
  double total_s = 0.0;

  TimedLaunches timed_launches() {
    return {"gpu", [this](int launches) {
              ++calls;
              total_s += launch_s * launches;
              return launch_s * launches;
            }};
  }
};

// A call takes 6 launches, which are 23 ms.
TEST(Bench, ASettledGpuIsUnderLoadAllTheTime) {
  FakeGpu gpu{.launch_s = 1.0 / 256};
  Protocol protocol = rounds(2, 2);
  protocol.regime = Regime::settled;
  const auto samples = measure({gpu.timed_launches()}, protocol, Backend::cuda, ignore_round);
  EXPECT_EQ(gpu.calls, 8 + 63 + 2 * (30 + 13)) << "1.5 s to warm up; turns of 0.7 s and 0.3 s";
  EXPECT_EQ(samples[0].inner_launches, 13 * 6);
  EXPECT_TRUE(samples[0].are_turns);
  EXPECT_EQ(samples[0].seconds, (std::vector<double>{1.0 / 256, 1.0 / 256}));
}

TEST(Bench, ATurnTakesAsLongAsTheProtocolSays) {
  FakeGpu gpu{.launch_s = 1.0 / 256};
  Protocol protocol = rounds(1, 1);
  protocol.regime = Regime::settled;
  protocol.turn_seconds = 0.1;
  measure({gpu.timed_launches()}, protocol, Backend::cuda, ignore_round);
  EXPECT_EQ(gpu.calls, 8 + 63 + 3 + 2) << "70 ms of load, 30 ms of a sample";
}

// Pretends to be a GPU whose launches really last that long, and rests as long behind each call.
struct RestingGpu {
  double launch_s, rest_s;

  double launch(int launches) const {
    std::this_thread::sleep_for(std::chrono::duration<double>(launch_s * launches + rest_s));
    return launch_s * launches;
  }
};

std::vector<double> at_work(const TimedLaunches& timed) {
  Protocol protocol = rounds(2, 2);
  protocol.regime = Regime::settled;
  protocol.turn_seconds = 0.1;
  return measure({timed}, protocol, Backend::cuda, ignore_round)[0].at_work;
}

TEST(Bench, ATurnSaysHowMuchOfItWasWork) {
  const RestingGpu busy{.launch_s = 20e-3, .rest_s = 0.0}, half{.launch_s = 20e-3, .rest_s = 20e-3};
  for (const double share : at_work({"busy", [&](int n) { return busy.launch(n); }})) {
    EXPECT_GT(share, 0.7) << "a sleep is longer than asked for";
  }
  for (const double share : at_work({"half", [&](int n) { return half.launch(n); }})) {
    EXPECT_LE(share, 0.5);
    EXPECT_GT(share, 0.3);
  }
}

TEST(Bench, ALoadIsMadeOfLongCalls) {
  FakeGpu gpu{.launch_s = 1.0 / 256};
  TimedLaunches timed = gpu.timed_launches();
  timed.most_launches = 3;  // of what is timed
  std::vector<int> loads;
  timed.load = [&](int n) {
    loads.push_back(n);
    return 0.125;
  };
  Protocol protocol = rounds(1, 1);
  protocol.regime = Regime::settled;
  measure({timed}, protocol, Backend::cuda, ignore_round);
  EXPECT_EQ(loads, std::vector<int>(6, 26)) << "0.7 s, in calls of 0.1 s by the launch's own time";
}

// A load's time may contain waits for the host, which are no work.
TEST(Bench, AWaitThatALoadCountsIsNoWork) {
  const RestingGpu busy{.launch_s = 20e-3, .rest_s = 0.0};
  const RestingGpu resting{.launch_s = 20e-3, .rest_s = 100e-3};
  TimedLaunches timed = {"load", [&](int n) { return busy.launch(n); }};
  timed.load = [&](int n) { return resting.launch(n) + resting.rest_s; };
  for (const double share : at_work(timed)) EXPECT_LT(share, 0.75);
}

TEST(Bench, LaunchesAheadAreWork) {
  const RestingGpu gpu{.launch_s = 20e-3, .rest_s = 20e-3};
  int ahead = 5;
  TimedLaunches timed = {"ahead", [](int) -> double { throw std::logic_error("it rests"); }};
  timed.time_under_load = [&](int n) {
    ahead += n;
    return gpu.launch(n);
  };
  timed.launches_ahead = [&] { return ahead; };
  for (const double share : at_work(timed)) EXPECT_GT(share, 0.7) << "all rests are such launches";
  Protocol burst = rounds(1, 1);
  const auto rested = measure({timed}, burst, Backend::cuda, ignore_round);
  EXPECT_THROW(std::rethrow_exception(rested[0].error), std::logic_error) << "a burst takes time";
  EXPECT_TRUE(rested[0].at_work.empty());
}

TEST(Bench, OfABurstASampleIsNoTurn) {
  FakeGpu gpu{.launch_s = 1.0 / 256};
  EXPECT_FALSE(
      measure({gpu.timed_launches()}, rounds(1, 1), Backend::cuda, ignore_round)[0].are_turns);
}

TEST(Bench, CompetitorsSettleTogether) {
  FakeGpu one{.launch_s = 1.0 / 256}, other{.launch_s = 1.0 / 256};
  Protocol protocol = rounds(1, 1);
  protocol.regime = Regime::settled;
  measure({one.timed_launches(), other.timed_launches()}, protocol, Backend::cuda, ignore_round);
  EXPECT_EQ(one.calls, 8 + 31 + 30 + 13);
  EXPECT_EQ(other.calls, one.calls);
}

TEST(Bench, AGpuRestsBetweenSamplesOfABurst) {
  FakeGpu gpu{.launch_s = 10e-3};
  const Clock::time_point start = Clock::now();
  measure({gpu.timed_launches()}, rounds(4, 4), Backend::cuda, ignore_round);
  EXPECT_GE(seconds_since(start), 10e-3 + 3 * 40e-3);
  EXPECT_EQ(gpu.calls, 1 + 4);
}

// A GPU whose telemetry is read must not be at work on a sample.
TEST(Bench, TelemetryIsReadBetweenSamples) {
  bool in_sample = false;
  int samples_done = 0;
  fake::Telemetry telemetry;
  telemetry.clocks_hz = {1e9};
  std::vector<int> read_after;
  telemetry.on_read = [&] {
    EXPECT_FALSE(in_sample);
    read_after.push_back(samples_done);
  };
  const TimedLaunches timed = {"gpu", [&](int launches) {
                                 in_sample = true;
                                 std::this_thread::sleep_for(1ms);
                                 in_sample = false;
                                 ++samples_done;
                                 return 0.02 * launches;
                               }};
  Protocol protocol = rounds(5, 5);
  const auto samples = measure({timed}, protocol, Backend::cpu, ignore_round, &telemetry);
  EXPECT_EQ(read_after, (std::vector<int>{2, 4})) << "one launch warms up, a block is 3 samples";
  ASSERT_EQ(samples[0].blocks.size(), 1u);
  EXPECT_EQ(samples[0].blocks[0].samples, 5);
}

TEST(Bench, LoadAndRestCountAsPartOfABlock) {
  FakeGpu gpu{.launch_s = 1.0 / 256};
  fake::Telemetry telemetry;
  Protocol protocol = rounds(6, 6);
  protocol.regime = Regime::settled;  // a turn of 1 s each
  EXPECT_EQ(measure({gpu.timed_launches()}, protocol, Backend::cuda, ignore_round, &telemetry)[0]
                .blocks.size(),
            6u);
  protocol.regime = Regime::burst;  // a rest of 4 samples: 20 ms in all, of the first 4 ms
  EXPECT_EQ(measure({gpu.timed_launches()}, protocol, Backend::cuda, ignore_round, &telemetry)[0]
                .blocks.size(),
            1u);
}

TEST(Bench, ASilentDeviceIsNotRead) {
  FakeGpu gpu{.launch_s = 0.1};
  fake::Telemetry telemetry;
  telemetry.reason = "no NVML";
  const auto samples =
      measure({gpu.timed_launches()}, rounds(2, 2), Backend::cpu, ignore_round, &telemetry);
  EXPECT_EQ(telemetry.reads, 0u);
  EXPECT_TRUE(samples[0].blocks.empty());
  EXPECT_EQ(samples[0].why_no_blocks, "no NVML");
}

TEST(Bench, WarmsUpForTheLaunchesAsked) {
  FakeGpu gpu{.launch_s = 1e-3};
  Protocol protocol = rounds(1, 1);
  protocol.warmup_launches = 10;
  measure({gpu.timed_launches()}, protocol, Backend::cpu, ignore_round);
  EXPECT_EQ(gpu.calls, 10 + 1);
}

TEST(Bench, LongLaunchesNeedFewerRounds) {
  Protocol protocol = rounds(30, 100);
  protocol.interval = 1.0;
  FakeGpu slow{.launch_s = 60e-3}, fast{.launch_s = 40e-3};
  EXPECT_EQ(
      measure({slow.timed_launches()}, protocol, Backend::cpu, ignore_round)[0].seconds.size(),
      10u);
  EXPECT_EQ(
      measure({fast.timed_launches()}, protocol, Backend::cpu, ignore_round)[0].seconds.size(),
      30u);
}

TEST(Bench, ACallTakesNoMoreLaunchesThanItMay) {
  FakeGpu gpu{.launch_s = 1e-6};
  TimedLaunches timed = gpu.timed_launches();
  timed.most_launches = 50;
  EXPECT_EQ(measure({timed}, rounds(1, 1), Backend::cpu, ignore_round)[0].inner_launches, 50);
}

TEST(Bench, NothingIsLaunchedOnALostDevice) {
  FakeGpu other{.launch_s = 1e-3};
  int calls = 0;
  const TimedLaunches loses = {"loses", [&](int) -> double {
                                 if (++calls == 3) {
                                   throw DeviceLost(DeviceLost::Cause::error, "gone");
                                 }
                                 return 1e-3;
                               }};
  const auto samples =
      measure({loses, other.timed_launches()}, rounds(9, 9), Backend::cpu, ignore_round);
  EXPECT_THROW(std::rethrow_exception(samples[0].error), DeviceLost);
  EXPECT_EQ(samples[0].seconds.size(), 1u);
  EXPECT_LE(samples[1].seconds.size(), 2u);
  EXPECT_EQ(samples[1].error, nullptr);
}

}  // namespace
}  // namespace attnlab
