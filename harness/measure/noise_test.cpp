#include "harness/measure/noise.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "harness/base/errors.h"
#include "harness/testing/test_support.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

using Sessions = std::vector<NoiseSession>;

NoiseSession session(std::vector<NoisePoint> points, const std::string& commit = "c") {
  return {.device = "GPU",
          .driver = "1",
          .timestamp = "t",
          .commit = commit,
          .rounds = 30,
          .points = std::move(points)};
}

// Makes 20 jobs of one point of 1 ms; the two runs of job i are apart by i times 0.1 %.
NoiseSession rising() {
  NoisePoint point = {.key = "k"};
  for (int i = 1; i <= 20; ++i) {
    point.a_s.push_back(1e-3);
    point.b_s.push_back(1e-3 * (1.0 + 1e-3 * i));
  }
  return session({point});
}

TEST(Noise, IsThe95thPercentileOfWhatEqualTimesAreApart) {
  const auto level = noise_level({rising()}, NoiseOf::turns, Regime::burst, size_class(1e-3));
  ASSERT_TRUE(level.has_value());
  EXPECT_NEAR(level->share, 0.019, 1e-9) << "of 20 pairs the 19th";
  EXPECT_NEAR(level->seconds, 0.019e-3, 1e-12);
  EXPECT_EQ(level->pairs, 20u);
}

TEST(Noise, BetweenProcessesEachRunIsBesideThatOfTheNextJob) {
  const NoiseSession one = session({{.key = "k", .a_s = {1.0, 1.1, 1.1}, .b_s = {1.0, 1.0, 1.3}}});
  const auto level = noise_level({one}, NoiseOf::processes, Regime::burst, size_class(1.0));
  ASSERT_TRUE(level.has_value());
  EXPECT_NEAR(level->share, 0.3, 1e-9);
  EXPECT_EQ(level->pairs, 4u);
}

TEST(Noise, BetweenSessionsAPointIsBesideItself) {
  const auto point = [](const char* key, double seconds) {
    return NoisePoint{.key = key, .a_s = {seconds}, .b_s = {seconds}};
  };
  const Sessions sessions = {session({point("k", 1.0), point("other", 1.0)}),
                             session({point("k", 1.2)}, "another"),
                             session({point("k", 1.3)}, "c-dirty"),
                             session({point("k", 1.4)}, "c-dirty"), session({point("k", 1.1)})};
  const auto level = noise_level(sessions, NoiseOf::sessions, Regime::burst, size_class(1.0));
  ASSERT_TRUE(level.has_value());
  EXPECT_NEAR(level->share, 0.1, 1e-9);
  EXPECT_EQ(level->pairs, 1u);
  EXPECT_FALSE(noise_level({sessions[0]}, NoiseOf::sessions, Regime::burst, size_class(1.0)));
}

TEST(Noise, IsOfItsRegimeAndSize) {
  NoiseSession settled = rising();
  settled.regime = Regime::settled;
  EXPECT_FALSE(noise_level({settled}, NoiseOf::turns, Regime::burst, size_class(1e-3)));
  EXPECT_TRUE(noise_level({settled}, NoiseOf::turns, Regime::settled, size_class(1e-3)));
  EXPECT_FALSE(noise_level({rising()}, NoiseOf::turns, Regime::burst, size_class(1e-5)));
  EXPECT_EQ(size_class(99e-6), 0);
  EXPECT_EQ(size_class(100e-6), 1);
  EXPECT_EQ(size_class(1.0), 3);
  EXPECT_EQ(describe_size_class(0), "below 0.1 ms");
  EXPECT_EQ(describe_size_class(1), "0.1 ms to 1 ms");
  EXPECT_EQ(describe_size_class(3), "from 10 ms");
}

TEST(Noise, TheThresholdIsThreeTimesAsMuchAndOnePercentAtLeast) {
  const auto threshold = [](const Sessions& sessions, double seconds) {
    return noise_threshold(sessions, NoiseOf::turns, Regime::burst, seconds, 0.05);
  };
  EXPECT_NEAR(threshold({rising()}, 1e-3), 0.057, 1e-9);
  EXPECT_NEAR(threshold({rising()}, 20.0), 0.057, 1e-9) << "of the size that was measured";
  const std::vector<double> twenty(20, 1e-3);
  const NoiseSession quiet = session({{.key = "k", .a_s = twenty, .b_s = twenty}});
  EXPECT_EQ(threshold({quiet}, 1e-3), 0.01);
  EXPECT_EQ(threshold({}, 1e-3), 0.05);
}

TEST(Noise, OfTooFewPairsOrMoreRoundsIsNotKnown) {
  NoiseSession few = rising();
  few.points[0].a_s.pop_back();
  few.points[0].b_s.pop_back();
  const auto threshold = [](const NoiseSession& one) {
    return noise_threshold({one}, NoiseOf::turns, Regime::burst, 1e-3, 0.05);
  };
  EXPECT_EQ(threshold(few), 0.05);
  EXPECT_GT(threshold(rising()), 0.05);
  EXPECT_EQ(sessions_for({rising()}, 30).size(), 1u);
  EXPECT_EQ(sessions_for({rising()}, 90).size(), 1u);
  EXPECT_TRUE(sessions_for({rising()}, 29).empty());
}

// A launch of 2 us had a noise of 0.1 us: less than 5 % for 90 us, and 5 % at most for 1 us.
TEST(Noise, OfSharesAndSecondsTheSmallerOneCounts) {
  const NoiseSession one = session(
      {{.key = "k", .a_s = std::vector<double>(20, 2e-6), .b_s = std::vector<double>(20, 2.1e-6)}});
  const auto threshold = [&](double seconds) {
    return noise_threshold({one}, NoiseOf::turns, Regime::burst, seconds, 0.05);
  };
  EXPECT_NEAR(threshold(1e-6), 0.15, 1e-6);
  EXPECT_NEAR(threshold(10e-6), 0.03, 1e-6);
  EXPECT_EQ(threshold(90e-6), 0.01);
}

TEST(Noise, IsReadAsItWasWritten) {
  NoiseSession settled = rising();
  settled.regime = Regime::settled;
  const std::string text = to_json(settled).dump() + "\n" + to_json(rising()).dump() + "\n";
  const Sessions read = parse_noise(text, "n");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(to_json(read[0]), to_json(settled));
  EXPECT_EQ(to_json(read[1]), to_json(rising()));
}

// GPUs of one name share a file, and may be calibrated at once.
TEST(Noise, SessionsOfSeveralThatAppendAreAllThere) {
  const TestFolder folder;
  const std::filesystem::path file = folder.path() / "noise.jsonl";
  constexpr int kThreads = 4, kSessions = 20;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kSessions; ++n) append_noise(rising(), file);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(parse_noise(text, "file").size(), static_cast<std::size_t>(kThreads * kSessions));
}

TEST(Noise, WhatIsDamagedIsRefusedWithTheRemedy) {
  const std::string good = to_json(rising()).dump();
  const auto with = [](const char* path, const nlohmann::ordered_json& value) {
    auto json = to_json(rising());
    json[nlohmann::ordered_json::json_pointer(path)] = value;
    return json.dump();
  };
  for (const std::string& line :
       {std::string("{"), good.substr(0, good.size() / 2), with("/schema", "attnlab.noise/2"),
        with("/regime", "hot"), with("/points/0/a_s/3", -1.0), with("/points/0/a_s/3", nullptr),
        with("/points/0/b_s", nlohmann::ordered_json::array()), with("/rounds", "many")}) {
    std::string both = good;
    both.append("\n").append(line);
    const std::string error = usage_error([&] { parse_noise(both, "n"); });
    EXPECT_PRED2(contains, error, "n:2");
    EXPECT_PRED2(contains, error, "attnlab calibrate");
  }
}

}  // namespace
}  // namespace attnlab
