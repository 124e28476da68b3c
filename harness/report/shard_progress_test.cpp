#include "harness/report/shard_progress.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// The n-th point of a shard of four, each a quarter of its predicted time.
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

TEST(ShardProgress, RefusesATimeThatIsNone) {
  EXPECT_PRED2(contains, usage_error([] { shard_states({point(1, 1, "noon")}); }),
               "its timestamp '2026-01-01TnoonZ' is no time");
}

}  // namespace
}  // namespace attnlab
