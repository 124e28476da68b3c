#include "harness/measure/bench.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
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

// No warm-up beyond the first launch, and an interval that is never reached.
Protocol rounds(int minimum, int maximum) {
  return {.min_rounds = minimum, .max_rounds = maximum, .interval = 0.0, .warmup_seconds = 0.0};
}

void ignore_round(int) {}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TimedLaunches launching(const char* name, std::function<void()> launch) {
  return {name, [launch = std::move(launch)](int launches) {
            return host_runtime().seconds_of(launches, [&](int) { launch(); });
          }};
}

TimedLaunches sleeper(const char* name, std::chrono::microseconds duration) {
  return launching(name, [duration] { std::this_thread::sleep_for(duration); });
}

TEST(Bench, EveryRoundHoldsEachOnce) {
  std::vector<int> reported;
  const auto samples =
      measure({sleeper("a", 2ms), sleeper("b", 3ms), sleeper("c", 1500us)}, rounds(6, 6),
              Backend::cpu, [&](int round) { reported.push_back(round); });
  ASSERT_EQ(samples.size(), 3u);
  for (std::size_t round = 0; round < 6; ++round) {
    std::set<int> places;
    for (const Samples& one : samples) places.insert(one.order.at(round));
    EXPECT_EQ(places, (std::set<int>{0, 1, 2})) << round;
  }
  EXPECT_EQ(reported, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  for (double seconds : samples[1].seconds) {
    EXPECT_GE(seconds, 3e-3);
    EXPECT_LT(seconds, 1.0);
  }
}

TEST(Bench, WhatComesBeforeALaunchIsNotTimed) {
  int calls = 0;
  TimedLaunches timed = sleeper("a", 2ms);
  timed.before = [&] {
    ++calls;
    std::this_thread::sleep_for(300ms);
  };
  const auto samples = measure({timed}, rounds(2, 2), Backend::cpu, ignore_round);
  EXPECT_EQ(calls, 3) << "one launch to warm up, two samples";
  for (double seconds : samples.at(0).seconds) EXPECT_LT(seconds, 0.3);
}

TEST(Bench, WhatBelongsToASampleIsAroundIt) {
  std::string calls;
  TimedLaunches timed = sleeper("a", 2ms);
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
  TimedLaunches timed = sleeper("a", 2ms);
  timed.check = [&] {
    if (++checks == 2) throw std::runtime_error("nothing was written");
  };
  const auto samples =
      measure({timed, sleeper("b", 1ms)}, rounds(4, 4), Backend::cpu, ignore_round);
  EXPECT_EQ(samples.at(0).seconds.size(), 1u) << "what was not right is no sample";
  EXPECT_TRUE(samples[0].error != nullptr);
  EXPECT_EQ(samples.at(1).seconds.size(), 4u);
}

TEST(Bench, WhatComesBeforeALaunchCanEndTheSamples) {
  int calls = 0;
  TimedLaunches timed = sleeper("a", 2ms);
  timed.before = [&] {
    if (++calls == 3) throw std::runtime_error("enough");
  };
  const auto samples =
      measure({timed, sleeper("b", 1ms)}, rounds(4, 4), Backend::cpu, ignore_round);
  EXPECT_EQ(samples.at(0).seconds.size(), 1u);
  EXPECT_TRUE(samples[0].error != nullptr);
  EXPECT_EQ(samples.at(1).seconds.size(), 4u);
  EXPECT_EQ(calls, 3);
}

TEST(Bench, TheOrderIsShuffled) {
  const auto samples =
      measure({sleeper("a", 1ms), sleeper("b", 1ms)}, rounds(40, 40), Backend::cpu, ignore_round);
  const std::set<int> places(samples[0].order.begin(), samples[0].order.end());
  EXPECT_EQ(places.size(), 2u) << "one order 40 times: probability 2^-39";
}

// Bounds hold on a loaded machine too, where a sleep may take much longer than asked.
TEST(Bench, ShortLaunchesAreRepeatedInsideASample) {
  Protocol protocol = rounds(2, 2);
  protocol.warmup_seconds = 0.02;  // the fastest launch counts
  int launches = 0, launches_before = 0;
  Clock::time_point before;
  const auto samples = measure({launching("short",
                                          [&launches] {
                                            ++launches;
                                            std::this_thread::sleep_for(100us);
                                          })},
                               protocol, Backend::cpu, [&](int round) {
                                 if (round != 1) return;
                                 launches_before = launches;
                                 before = Clock::now();
                               });
  const double second_round = seconds_since(before);
  const int inner = samples[0].inner_launches;
  EXPECT_GE(inner, 2);
  EXPECT_LE(inner, 10);
  EXPECT_EQ(launches - launches_before, inner);
  EXPECT_GE(samples[0].seconds[1], 100e-6);
  EXPECT_LE(samples[0].seconds[1] * inner, second_round) << "seconds a launch, not a sample";
  EXPECT_EQ(
      measure({sleeper("long", 2ms)}, rounds(1, 1), Backend::cpu, ignore_round)[0].inner_launches,
      1);
}

TEST(Bench, StopsWhenTheIntervalIsNarrow) {
  Protocol protocol = rounds(4, 50);
  protocol.interval = 10.0;  // any interval is within 1000 %
  EXPECT_EQ(measure({sleeper("a", 1ms)}, protocol, Backend::cpu, ignore_round)[0].seconds.size(),
            4u);
  EXPECT_EQ(
      measure({sleeper("a", 1ms)}, rounds(4, 11), Backend::cpu, ignore_round)[0].seconds.size(),
      11u);
}

TEST(Bench, StopsWhatHasUsedItsTime) {
  Protocol protocol = rounds(5, 8);
  protocol.max_seconds = 0.1;
  const auto samples =
      measure({sleeper("slow", 40ms), sleeper("fast", 1ms)}, protocol, Backend::cpu, ignore_round);
  const std::vector<double>& slow = samples[0].seconds;
  EXPECT_LE(slow.size(), 3u);
  const double spent = std::accumulate(slow.begin(), slow.end(), 0.0);
  EXPECT_GE(spent, protocol.max_seconds);
  EXPECT_LT(spent - slow.back(), protocol.max_seconds);
  EXPECT_EQ(samples[1].seconds.size(), 8u) << "the others go on";
  EXPECT_EQ(samples[0].rounds_asked, 5) << "which it did not get";
}

TEST(Bench, TenRoundsOfLongLaunchesAreEnoughUnlessTheNumberIsExact) {
  Protocol protocol = rounds(12, 13);
  protocol.interval = 10.0;
  const auto take = [&] {
    return measure({sleeper("long", 51ms)}, protocol, Backend::cpu, ignore_round)[0];
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
  protocol.warmup_seconds = 0.03;
  const Clock::time_point start = Clock::now();
  int launches = 0;
  measure({launching("a",
                     [&launches] {
                       ++launches;
                       std::this_thread::sleep_for(5ms);
                     })},
          protocol, Backend::cpu, ignore_round);
  EXPECT_GE(seconds_since(start), 0.035);
  EXPECT_LE(launches, 6 + 1);
}

TEST(Bench, AThrowingOneIsReportedAndTheOthersGoOn) {
  int launches = 0;
  const auto throws_on = [&launches](int which) {
    return [&launches, which] {
      if (++launches == which) throw std::runtime_error("no more");
      std::this_thread::sleep_for(2ms);
    };
  };
  const auto samples = measure({launching("bad", throws_on(3)), sleeper("good", 2ms)}, rounds(4, 4),
                               Backend::cpu, ignore_round);
  EXPECT_THROW(std::rethrow_exception(samples[0].error), std::runtime_error);
  EXPECT_EQ(samples[0].seconds.size(), 1u);
  EXPECT_EQ(samples[1].error, nullptr);
  EXPECT_EQ(samples[1].seconds.size(), 4u);

  launches = 0;
  const auto in_warm_up =
      measure({launching("bad", throws_on(1))}, rounds(4, 4), Backend::cpu, ignore_round);
  EXPECT_NE(in_warm_up[0].error, nullptr);
  EXPECT_TRUE(in_warm_up[0].seconds.empty());
}

// A GPU that says that every launch takes so long, at once.
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
  EXPECT_EQ(gpu.calls, 384 + 2 * (30 + 13)) << "1.5 s to warm up; turns of 0.7 s and 0.3 s";
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
  EXPECT_EQ(gpu.calls, 384 + 3 + 2) << "70 ms of load, 30 ms of a sample";
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
  EXPECT_EQ(one.calls, 192 + 30 + 13);
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
