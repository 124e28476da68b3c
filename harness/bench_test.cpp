#include "harness/bench.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

namespace attnlab {
namespace {

using namespace std::chrono_literals;

// No warm-up beyond the first launch, and an interval that is never reached.
Protocol rounds(int minimum, int maximum) {
  return {.min_rounds = minimum, .max_rounds = maximum, .interval = 0.0, .warmup_seconds = 0.0};
}

void ignore_round(int) {}

Contender sleeper(const char* name, std::chrono::microseconds duration) {
  return {name, [duration] { std::this_thread::sleep_for(duration); }};
}

TEST(Bench, EveryRoundHoldsEveryContenderOnce) {
  std::vector<int> reported;
  const auto samples = measure({sleeper("a", 2ms), sleeper("b", 3ms), sleeper("c", 1500us)},
                               rounds(6, 6), [&](int round) { reported.push_back(round); });
  ASSERT_EQ(samples.size(), 3u);
  for (std::size_t round = 0; round < 6; ++round) {
    std::set<int> places;
    for (const Samples& contender : samples) places.insert(contender.order.at(round));
    EXPECT_EQ(places, (std::set<int>{0, 1, 2})) << round;
  }
  EXPECT_EQ(reported, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  for (double seconds : samples[1].seconds) {
    EXPECT_GE(seconds, 3e-3);
    EXPECT_LT(seconds, 100e-3);
  }
}

TEST(Bench, TheOrderIsShuffled) {
  const auto samples =
      measure({sleeper("a", 1ms), sleeper("b", 1ms)}, rounds(40, 40), ignore_round);
  const std::set<int> places(samples[0].order.begin(), samples[0].order.end());
  EXPECT_EQ(places.size(), 2u) << "one order 40 times: probability 2^-39";
}

TEST(Bench, ShortLaunchesAreRepeatedInsideASample) {
  int launches = 0;
  const auto samples = measure({{"short",
                                 [&launches] {
                                   ++launches;
                                   std::this_thread::sleep_for(100us);
                                 }},
                                sleeper("long", 2ms)},
                               rounds(2, 2), ignore_round);
  EXPECT_GE(samples[0].inner_launches, 3);
  EXPECT_LE(samples[0].inner_launches, 10);
  EXPECT_EQ(launches, 1 + 2 * samples[0].inner_launches);
  EXPECT_GE(samples[0].seconds[0], 100e-6);
  EXPECT_LT(samples[0].seconds[0], 1e-3) << "seconds a launch, not a sample";
  EXPECT_EQ(samples[1].inner_launches, 1);
}

TEST(Bench, StopsWhenTheIntervalIsNarrow) {
  Protocol protocol = rounds(4, 50);
  protocol.interval = 10.0;  // any interval is within 1000 %
  EXPECT_EQ(measure({sleeper("a", 1ms)}, protocol, ignore_round)[0].seconds.size(), 4u);
  EXPECT_EQ(measure({sleeper("a", 1ms)}, rounds(4, 11), ignore_round)[0].seconds.size(), 11u);
}

TEST(Bench, StopsAContenderThatHasUsedItsTime) {
  Protocol protocol = rounds(5, 8);
  protocol.max_seconds = 0.02;
  const auto samples =
      measure({sleeper("slow", 15ms), sleeper("fast", 1ms)}, protocol, ignore_round);
  EXPECT_EQ(samples[0].seconds.size(), 2u);
  EXPECT_EQ(samples[1].seconds.size(), 8u);
}

TEST(Bench, WarmsUpForTheTimeAsked) {
  Protocol protocol = rounds(1, 1);
  protocol.warmup_seconds = 0.02;
  int launches = 0;
  measure({{"a",
            [&launches] {
              ++launches;
              std::this_thread::sleep_for(5ms);
            }}},
          protocol, ignore_round);
  EXPECT_GE(launches, 2 + 1);
  EXPECT_LE(launches, 4 + 1);
}

TEST(Bench, AThrowingContenderIsReportedAndTheOthersGoOn) {
  int launches = 0;
  const auto throws_on = [&launches](int which) {
    return [&launches, which] {
      if (++launches == which) throw std::runtime_error("no more");
      std::this_thread::sleep_for(2ms);
    };
  };
  const auto samples =
      measure({{"bad", throws_on(3)}, sleeper("good", 2ms)}, rounds(4, 4), ignore_round);
  EXPECT_THROW(std::rethrow_exception(samples[0].error), std::runtime_error);
  EXPECT_EQ(samples[0].seconds.size(), 1u);
  EXPECT_EQ(samples[1].error, nullptr);
  EXPECT_EQ(samples[1].seconds.size(), 4u);

  launches = 0;
  const auto in_warm_up = measure({{"bad", throws_on(1)}}, rounds(4, 4), ignore_round);
  EXPECT_NE(in_warm_up[0].error, nullptr);
  EXPECT_TRUE(in_warm_up[0].seconds.empty());
}

}  // namespace
}  // namespace attnlab
