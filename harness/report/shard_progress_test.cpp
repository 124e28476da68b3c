#include "harness/report/shard_progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Makes the n-th point of a shard of four, each a quarter of its predicted time.
RecordJson point(int index, int n, const std::string& time_of_day, const std::string& run = "1") {
  return {{"id", "p" + std::to_string(n)},
          {"sweep", "s"},
          {"shard", {{"index", index}, {"of", 3}, {"cut", "c"}, {"points", 4}, {"share", 0.25}}},
          {"kernel", "v2"},
          {"backend", "cpu"},
          {"config", RecordJson::object()},
          {"input_kind", "normal"},
          {"seed", index},
          {"status", "ok"},
          {"device", {{"name", "A"}}},
          {"protocol", {{"cache", "hot"}}},
          {"run", run},
          {"timestamp", "2026-01-01T" + time_of_day + "Z"}};
}

TEST(ShardProgress, SaysWhatIsDoneAndHowLongTheRestTakes) {
  const auto states =
      shard_states({point(1, 1, "10:00:00"), point(1, 2, "10:00:30"), point(1, 3, "10:01:00")});
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].done, 3u);
  EXPECT_EQ(states[0].points, 4u);
  EXPECT_DOUBLE_EQ(states[0].points_a_minute.value(), 2.0);
  EXPECT_DOUBLE_EQ(states[0].seconds_left.value(), 30.0);
}

// A night between two processes is no time that a point took.
TEST(ShardProgress, TimeBetweenProcessesDoesNotCount) {
  const auto states = shard_states(
      {point(1, 1, "10:00:00"), point(1, 2, "10:00:30"), point(1, 3, "20:00:00", "2")});
  EXPECT_DOUBLE_EQ(states.at(0).points_a_minute.value(), 2.0);
  EXPECT_DOUBLE_EQ(states.at(0).seconds_left.value(), 30.0);
}

TEST(ShardProgress, CountsAPointOnceAndFailuresApart) {
  RecordJson again = point(1, 1, "10:02:00");
  again["status"] = "failed";
  RecordJson invalid = point(1, 2, "10:01:00");
  invalid["status"] = "invalid";
  const auto states = shard_states({point(1, 1, "10:00:00"), invalid, again});
  EXPECT_EQ(states.at(0).done, 2u);
  EXPECT_EQ(states.at(0).failed, 2u);
}

TEST(ShardProgress, TheSlowestShardSaysWhenAllEnd) {
  std::vector<RecordJson> records = {point(1, 1, "10:00:00"), point(1, 2, "10:00:30"),
                                     point(3, 1, "10:00:00"), point(3, 2, "10:10:00")};
  const std::string text = render_progress(shard_states(records), TableFormat::table);
  EXPECT_PRED2(contains, text, "s        1/3     2   4       0              2.0   1:00\n");
  EXPECT_PRED2(contains, text,
               "4 of 8 points done, 0 failed, 2.1 a minute, 20:00 left where all shards run. "
               "Without a record yet:\n2/3.\n");
  for (int index : {1, 3}) {
    for (int n : {3, 4}) records.push_back(point(index, n, "11:00:00"));
  }
  const std::string over = render_progress(shard_states(records), TableFormat::table);
  EXPECT_PRED2(contains, over, "8 of 8 points done, 0 failed. Without a record yet: 2/3.\n");
  EXPECT_PRED2(contains, over, " done\n");
}

TEST(ShardProgress, OfARunThatWasNotCutNobodyKnowsTheEnd) {
  RecordJson first = point(1, 1, "10:00:00"), second = point(1, 2, "10:00:30");
  first["shard"] = second["shard"] = nullptr;
  const std::string text = render_progress(shard_states({first, second}), TableFormat::table);
  EXPECT_PRED2(contains, text, "2 of 2 points done, 0 failed, 2.0 a minute, the time left is not");
}

// Returns points of two shards of four, and of a run of the whole sweep.
std::vector<RecordJson> resumed_without_shard(int whole_run) {
  std::vector<RecordJson> records;
  for (int n : {1, 2, 3, 4}) records.push_back(point(1, n, "10:00:00"));
  records.push_back(point(2, 1, "10:00:00"));
  for (RecordJson& record : records) record["shard"]["sweep_points"] = 12;
  for (int n = 0; n < whole_run; ++n) {
    records.push_back(point(3, 10 + n, "11:00:00"));
    records.back()["shard"] = nullptr;
  }
  return records;
}

// The third shard has no record of its own.
TEST(ShardProgress, WhatARunOfTheWholeSweepDidCounts) {
  const auto done = shard_states(resumed_without_shard(7));
  ASSERT_EQ(done.size(), 3u);
  for (const ShardState& shard : done) EXPECT_TRUE(shard.is_complete()) << shard.index;
  EXPECT_PRED2(contains, render_progress(done, TableFormat::table),
               "\n12 of 12 points done, 0 failed.\n");
  const auto open = shard_states(resumed_without_shard(6));
  EXPECT_EQ(std::ranges::count_if(open, &ShardState::is_complete), 1);
  const std::string text = render_progress(open, TableFormat::table);
  EXPECT_PRED2(contains, text, "\n11 of 12 points done, 0 failed");
  EXPECT_PRED2(contains, text, "3/3");
}

// Older records do not say how many points all shards have; all shards together do.
TEST(ShardProgress, OlderRecordsTellOnceAllShardsHaveSome) {
  std::vector<RecordJson> records = resumed_without_shard(6);
  for (RecordJson& record : records) {
    if (record["shard"].is_object()) record["shard"].erase("sweep_points");
  }
  const auto is_done = [&] {
    return std::ranges::all_of(shard_states(records), &ShardState::is_complete);
  };
  EXPECT_FALSE(is_done());
  records.push_back(point(3, 1, "10:00:00"));
  EXPECT_TRUE(is_done());
}

// Points of two cuts may be the same shard's, or of other kernels.
TEST(ShardProgress, TwoCutsMakeNoSweepWhole) {
  std::vector<RecordJson> records = resumed_without_shard(7);
  records[4]["shard"]["cut"] = "d";
  EXPECT_EQ(std::ranges::count_if(shard_states(records), &ShardState::is_complete), 1);
}

TEST(ShardProgress, RegimesAreCountedApart) {
  RecordJson settled = point(1, 1, "10:00:00");
  settled["protocol"]["regime"] = "settled";
  EXPECT_EQ(shard_states({point(1, 1, "10:00:00"), settled}).size(), 2u);
}

TEST(ShardProgress, RefusesATimeThatIsNone) {
  EXPECT_PRED2(contains, usage_error([] { shard_states({point(1, 1, "noon")}); }),
               "its timestamp '2026-01-01TnoonZ' is no time");
}

}  // namespace
}  // namespace attnlab
