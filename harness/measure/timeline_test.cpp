#include "harness/measure/timeline.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Makes an item that is claimed at `claimed`, takes 10 ns until each step but the last, and is
// stored at `stored`.
TimelineItem item_of(std::uint32_t multiprocessor, std::uint64_t claimed, std::uint64_t stored) {
  const auto moment = [](std::uint64_t at) { return Moment{.nanoseconds = at, .cycles = 2 * at}; };
  return {.times = 3,
          .multiprocessor = multiprocessor,
          .block = multiprocessor,
          .describe_cycles = 700,
          .claimed = moment(claimed),
          .published = moment(claimed + 10),
          .first_k = moment(claimed + 20),
          .first_product = moment(claimed + 30),
          .last_store = moment(stored)};
}

// Makes items of two multiprocessors, from 1000 to 2000 ns; the second ends at 1600.
std::vector<TimelineItem> two_and_one() {
  return {item_of(0, 1000, 1500), item_of(1, 1000, 1600), item_of(0, 1400, 2000)};
}

TEST(Timelines, SayHowALaunchEnded) {
  const TimelineRecord record = summarize_timeline(two_and_one(), 1.0e-3, 1.005e-3);
  EXPECT_EQ(record.reason, "");
  EXPECT_EQ(record.items, 3);
  EXPECT_NEAR(record.idle_share_at_end.value(), 0.2, 1e-12) << "(0 + 400) / 2 of 1000 ns";
  EXPECT_NEAR(record.claim_to_begin_s.value(), 30e-9, 1e-15);
  EXPECT_EQ(record.describe_cycles, 700.0);
}

TEST(Timelines, AreVoidWhereTheyCostTimeOrLackItems) {
  const TimelineRecord slow = summarize_timeline(two_and_one(), 1.02e-3, 1.0e-3);
  EXPECT_PRED2(contains, slow.reason, "1020.000 us, without 1000.000 us: +2.0 %");
  EXPECT_FALSE(slow.idle_share_at_end || slow.claim_to_begin_s || slow.describe_cycles);
  std::vector<TimelineItem> items = two_and_one();
  items[1].times = 2;
  EXPECT_PRED2(contains, summarize_timeline(items, 1.0, 1.0).reason, "item 1 was claimed 2 times");
  for (TimelineItem& item : items) item.times = 0;
  EXPECT_NE(summarize_timeline(items, 1.0, 1.0).reason, "");
  EXPECT_NE(summarize_timeline({}, 1.0, 1.0).reason, "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(summarize_timeline(two_and_one(), nan, 1.0).reason, "");
  EXPECT_NE(summarize_timeline(two_and_one(), 1.0, 0.0).reason, "");
}

TEST(Timelines, AreTracesWithATrackAMultiprocessor) {
  Record record;
  record.point.competitors.resize(1);
  const auto trace = nlohmann::json::parse(timeline_trace(two_and_one(), record));
  int processes = 0, spans = 0;
  double end_of_first = 0.0, begin_of_last = 0.0;
  for (const auto& event : trace.at("traceEvents")) {
    processes += event.at("name") == "process_name" ? 1 : 0;
    if (event.at("ph") != "X") continue;
    ++spans;
    const double begin = event.at("ts"), duration = event.at("dur");
    if (event.at("name") == "item 0") end_of_first = begin + duration;
    if (event.at("name") == "item 2") begin_of_last = begin;
  }
  EXPECT_EQ(processes, 2);
  EXPECT_EQ(spans, 3);
  EXPECT_NEAR(end_of_first, 0.43, 1e-9) << "us; cut where the next begins: 1430 - 1000 ns";
  EXPECT_NEAR(begin_of_last, 0.43, 1e-9);
}

}  // namespace
}  // namespace attnlab
