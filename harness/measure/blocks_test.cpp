#include "harness/measure/blocks.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "harness/measure/timing.h"
#include "harness/testing/fake_telemetry.h"

namespace attnlab {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Spans = std::vector<std::pair<int, int>>;  // first sample, samples

Spans spans_of(const std::vector<Block>& blocks) {
  Spans spans;
  for (const Block& block : blocks) spans.emplace_back(block.first_sample, block.samples);
  return spans;
}

Spans spans_of_samples(const std::vector<double>& seconds, std::size_t* reads = nullptr) {
  fake::Telemetry telemetry;
  BlockWatch watch(&telemetry);
  for (const double sample : seconds) watch.add_sample(sample);
  const std::vector<Block> blocks = watch.finish();
  if (reads != nullptr) *reads = telemetry.reads;
  return spans_of(blocks);
}

std::vector<Block> blocks_of(const std::vector<std::optional<double>>& clocks) {
  std::vector<Block> blocks;
  for (const auto& clock : clocks) {
    blocks.push_back({.samples = 1, .reading = {.multiprocessor_clock_hz = clock}});
  }
  return blocks;
}

std::vector<bool> marks_of(const std::vector<std::optional<double>>& clocks) {
  std::vector<bool> marks;
  for (const Block& block : judge_blocks(blocks_of(clocks), 1.0, "").blocks) {
    marks.push_back(block.marked);
  }
  return marks;
}

TEST(BlockWatch, ABlockIsFiftyMillisecondsOrOneSample) {
  EXPECT_EQ(spans_of_samples({0.03, 0.03, 0.06, 0.02, 0.02, 0.02}),
            (Spans{{0, 2}, {2, 1}, {3, 3}}));
}

TEST(BlockWatch, WhatIsLeftBelongsToTheLastWholeBlock) {
  EXPECT_EQ(spans_of_samples({0.06, 0.06, 0.01, 0.01}), (Spans{{0, 1}, {1, 3}}));
}

TEST(BlockWatch, ShortSamplesAreOneBlock) {
  std::size_t reads = 0;
  EXPECT_EQ(spans_of_samples({0.01, 0.01, 0.01}, &reads), (Spans{{0, 3}}));
  EXPECT_EQ(reads, 1u);
}

TEST(BlockWatch, ReadsOnceABlockAndAfterTheFirstSample) {
  std::size_t reads = 0;
  EXPECT_EQ(spans_of_samples(std::vector<double>(20, 1.0 / 128), &reads), (Spans{{0, 7}, {7, 13}}));
  EXPECT_EQ(reads, 3u);
}

TEST(BlockWatch, ABlockHasTheReadingAfterItsLastSample) {
  fake::Telemetry telemetry;
  telemetry.clocks_hz = {1e9, 2e9, 3e9};
  BlockWatch watch(&telemetry);
  for (int i = 0; i < 4; ++i) watch.add_sample(0.03);
  const std::vector<Block> blocks = watch.finish();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].reading.multiprocessor_clock_hz, 2e9) << "the first was after one sample";
  EXPECT_EQ(blocks[1].reading.multiprocessor_clock_hz, 3e9);
}

TEST(BlockWatch, WithoutTelemetryThereAreNoBlocks) {
  BlockWatch watch(nullptr);
  watch.add_sample(1.0);
  EXPECT_TRUE(watch.finish().empty());
}

TEST(BlockWatch, ATimeThatIsNoNumberEndsABlock) {
  EXPECT_EQ(spans_of_samples({kNan, 0.06}), (Spans{{0, 1}, {1, 1}}));
}

TEST(JudgeBlocks, MarksWhatIsMoreThanFivePercentOffTheMedian) {
  EXPECT_EQ(marks_of({1.00e9, 1.00e9, 1.04e9, 0.96e9}),
            (std::vector<bool>{false, false, false, false}));
  EXPECT_EQ(marks_of({1.00e9, 1.00e9, 1.06e9, 0.94e9}),
            (std::vector<bool>{false, false, true, true}));
}

TEST(JudgeBlocks, MarksAClockThatIsMissingOrNoNumber) {
  EXPECT_EQ(marks_of({1e9, 1e9, 1e9, std::nullopt}),
            (std::vector<bool>{false, false, false, true}));
  const std::vector<bool> all(3, true);
  EXPECT_EQ(marks_of({kNan, kNan, kNan}), all);
}

TEST(JudgeBlocks, MoreThanAQuarterMarkedIsUnsettled) {
  const BlockTelemetry quarter = judge_blocks(blocks_of({1e9, 1e9, 1e9, 2e9}), 1.0, "");
  EXPECT_EQ(quarter.marked_blocks, 1);
  EXPECT_EQ(quarter.settled, true);
  const BlockTelemetry more = judge_blocks(blocks_of({1e9, 1e9, 2e9}), 1.0, "");
  EXPECT_EQ(more.marked_blocks, 1);
  EXPECT_EQ(more.settled, false);
}

TEST(TurnsAgree, WhereAtMostAQuarterIsTwoPercentOff) {
  EXPECT_TRUE(turns_agree({1.00, 1.00, 1.015, 2.0}));
  EXPECT_FALSE(turns_agree({1.00, 1.00, 1.00, 1.03, 2.0}));
  EXPECT_FALSE(turns_agree({1.00, 1.00, 0.97}));
  EXPECT_FALSE(turns_agree({kNan, kNan, kNan}));
}

TEST(TurnsAgree, WhatDisagreesDidNotSettle) {
  Samples samples = {.seconds = {1.0, 1.0, 1.1, 1.1}, .are_turns = true};
  samples.blocks = blocks_of({1e9, 1e9, 1e9, 1e9});
  EXPECT_EQ(summarize(samples, "t").telemetry->settled, false);
  samples.are_turns = false;
  EXPECT_EQ(summarize(samples, "t").telemetry->settled, true);
}

TEST(AtWork, WhoRestsInMostTurnsDidNotSettle) {
  Samples samples = {.seconds = {1.0, 1.0, 1.0}, .are_turns = true, .at_work = {0.5, 0.95, 0.97}};
  samples.blocks = blocks_of({1e9, 1e9, 1e9});
  EXPECT_EQ(summarize(samples, "t").at_work, 0.95);
  EXPECT_EQ(summarize(samples, "t").telemetry->settled, true);
  samples.at_work = {0.97, 0.89, 0.5};
  EXPECT_EQ(summarize(samples, "t").telemetry->settled, false);
  samples.at_work = {0.97, kNan, kNan};
  EXPECT_EQ(summarize(samples, "t").telemetry->settled, false);
  samples.at_work = {};
  EXPECT_EQ(summarize(samples, "t").at_work, std::nullopt);
  EXPECT_EQ(summarize(samples, "t").telemetry->settled, true) << "of a burst nobody asks";
}

TEST(JudgeBlocks, CyclesAreTheTimeAtTheMeanClock) {
  const BlockTelemetry told = judge_blocks(blocks_of({1.0e9, 1.0e9, 1.03e9}), 2e-3, "");
  EXPECT_DOUBLE_EQ(told.median_clock_hz.value(), 1.0e9);
  EXPECT_DOUBLE_EQ(told.mean_clock_hz.value(), 1.01e9);
  EXPECT_DOUBLE_EQ(told.cycles.value(), 2.02e6);
  EXPECT_EQ(told.reason, "");
}

TEST(JudgeBlocks, WithoutAClockNothingIsJudged) {
  const BlockTelemetry silent = judge_blocks(blocks_of({std::nullopt, std::nullopt}), 1.0, "");
  EXPECT_EQ(silent.settled, std::nullopt);
  EXPECT_EQ(silent.cycles, std::nullopt);
  EXPECT_EQ(silent.blocks.size(), 2u);
  EXPECT_NE(silent.reason, "");
  EXPECT_EQ(judge_blocks({}, 1.0, "no NVML").reason, "no NVML");
}

}  // namespace
}  // namespace attnlab
