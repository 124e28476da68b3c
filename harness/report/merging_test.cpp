#include "harness/report/merging.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/report/table.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Makes a record of a kernel that took turns with another one.
RecordJson record_of(const std::string& kernel, const std::string& time_of_day, double median_s) {
  return {{"id", "fwd/f32/b1/hq1/hkv1/sq64/sk64/d64/none/p0/bshd"},
          {"sweep", "s"},
          {"shard", nullptr},
          {"kernel", kernel},
          {"backend", "cpu"},
          {"config", RecordJson::object()},
          {"problem",
           {{"seqlen_q", 64},
            {"seqlen_k", 64},
            {"num_heads_q", 1},
            {"num_heads_kv", 1},
            {"pass", "fwd"}}},
          {"input_kind", "normal"},
          {"seed", 7},
          {"status", "ok"},
          {"reason", ""},
          {"time", {{"median_s", median_s}, {"contenders", 2}, {"n", 9}}},
          {"device", {{"name", "A"}, {"isa", "avx2"}, {"threads", 2}}},
          {"protocol", {{"cache", "hot"}, {"regime", "burst"}}},
          {"run", "1"},
          {"timestamp", "2026-01-01T" + time_of_day + "Z"}};
}

RecordJson in_shard(RecordJson record, int index, int points, const std::string& cut = "c") {
  record["shard"] = {{"index", index}, {"of", 3}, {"cut", cut}, {"points", points}, {"share", 0.5}};
  return record;
}

Merged merge(const std::vector<MergeInput>& inputs) {
  return merge_records(inputs, [](const RecordJson&) { return 0.05; });
}

double median_of(const RecordJson& record) { return record["time"]["median_s"]; }

TEST(Merging, KeepsWhatIsThereOnceInOrder) {
  const Merged merged = merge(
      {{"a", {record_of("v2", "10:00:00", 1.0)}}, {"b", {record_of("naive", "09:00:00", 2.0)}}});
  ASSERT_EQ(merged.records.size(), 2u);
  EXPECT_EQ(merged.records[0]["kernel"], "v2");
  EXPECT_EQ(merged.records[1]["kernel"], "naive");
  EXPECT_EQ(render_merge(merged), "");
}

// The latest time stamp wins, wherever the record stands; of equal ones the last.
TEST(Merging, TheLatestOfAPointCounts) {
  const RecordJson early = record_of("v2", "10:00:00", 1.0),
                   late = record_of("v2", "10:00:01", 1.01);
  for (const auto& [first, second] : {std::pair(early, late), std::pair(late, early)}) {
    const Merged merged = merge({{"a", {first}}, {"b", {second}}});
    ASSERT_EQ(merged.records.size(), 1u);
    EXPECT_EQ(median_of(merged.records[0]), 1.01);
    ASSERT_EQ(merged.replaced.size(), 1u);
    EXPECT_EQ(merged.replaced[0].timestamp, "2026-01-01T10:00:00Z");
    EXPECT_EQ(merged.disagreements, Texts{}) << "1 % is noise";
    EXPECT_PRED2(contains, render_merge(merged), "1 record left out, since a later one");
  }
  const Merged tie = merge({{"a", {early, record_of("v2", "10:00:00", 1.02)}}});
  EXPECT_EQ(median_of(tie.records.at(0)), 1.02);
}

TEST(Merging, CopiesAreNoNews) {
  const RecordJson record = record_of("v2", "10:00:00", 1.0);
  const Merged merged = merge({{"all", {record}}, {"a", {record, record}}});
  EXPECT_EQ(merged.records.size(), 1u);
  EXPECT_EQ(merged.copies, 2u);
  EXPECT_EQ(render_merge(merged), "");
}

TEST(Merging, UnlikeDevicesAndRegimesKeepTheirOwn) {
  const RecordJson here = record_of("v2", "10:00:00", 1.0);
  for (const char* patch :
       {R"([{"op": "replace", "path": "/device/name", "value": "B"}])",
        R"([{"op": "replace", "path": "/device/threads", "value": 4}])",
        R"([{"op": "replace", "path": "/device/isa", "value": "sse2"}])",
        R"([{"op": "replace", "path": "/protocol/regime", "value": "settled"}])"}) {
    const RecordJson there = here.patch(RecordJson::parse(patch));
    const Merged merged = merge({{"a", {here}}, {"b", {there}}});
    EXPECT_EQ(merged.records.size(), 2u) << patch;
    EXPECT_EQ(render_merge(merged), "");
  }
}

TEST(Merging, WhatDisagreesBeyondNoiseIsSaid) {
  const RecordJson now = record_of("v2", "10:00:01", 1.0);
  const auto said = [&](RecordJson before) {
    before["timestamp"] = "2026-01-01T10:00:00Z";
    return merge({{"a", {before}}, {"b", {now}}}).disagreements;
  };
  EXPECT_EQ(said(record_of("v2", "", 1.04)), Texts{});
  ASSERT_EQ(said(record_of("v2", "", 1.06)).size(), 1u);
  EXPECT_PRED2(contains, said(record_of("v2", "", 1.06))[0],
               ": 1000 ms in b (2026-01-01T10:00:01Z), +6.0 % in a (2026-01-01T10:00:00Z); 5.0 %");
  EXPECT_PRED2(contains, said(record_of("v2", "", 0.9)).at(0), "-10.0 % in a");
  RecordJson failed = record_of("v2", "", 1.0);
  failed["status"] = "failed";
  failed["time"] = nullptr;
  EXPECT_PRED2(contains, said(failed).at(0), "ok in b (2026-01-01T10:00:01Z), failed in a");
}

// Layouts of one problem take turns with one another, so they are one case.
TEST(Merging, ACaseWhoseKernelsDidNotTakeTurnsTogetherIsSaid) {
  const RecordJson v2 = record_of("v2", "10:00:00", 1.0);
  RecordJson naive = record_of("naive", "10:00:00", 2.0);
  EXPECT_EQ(merge({{"a", {v2, naive}}}).split_cases, Texts{});
  naive["id"] = "fwd/f32/b1/hq1/hkv1/sq64/sk64/d64/none/p0/bhsd";
  RecordJson fewer = naive, later = naive;
  fewer["time"]["contenders"] = 1;
  EXPECT_PRED2(contains, merge({{"a", {v2, fewer}}}).split_cases.at(0),
               "d64/none/p0: its kernels are of 1 run, with 1 and 2 contenders.");
  later["run"] = "2";
  EXPECT_PRED2(contains, merge({{"a", {v2}}, {"b", {later}}}).split_cases.at(0),
               "its kernels are of 2 runs, with 2 contenders.");
  later["device"]["name"] = "B";
  EXPECT_EQ(merge({{"a", {v2}}, {"b", {later}}}).split_cases, Texts{});
}

TEST(Merging, WhatShardsLackIsSaid) {
  const RecordJson v2 = in_shard(record_of("v2", "10:00:00", 1.0), 1, 1);
  const RecordJson naive = in_shard(record_of("naive", "10:00:00", 2.0), 2, 2);
  EXPECT_EQ(
      merge({{"a", {v2, naive}}}).missing,
      (Texts{"Sweep s: shard 2/3 has 1 of 2 points.", "Sweep s: shard 3/3 has no records here."}));
  const RecordJson other = in_shard(record_of("v3", "10:00:00", 3.0), 3, 1, "d");
  EXPECT_PRED2(contains, merge({{"a", {v2, naive, other}}}).missing.at(0),
               "Sweep s: its records are of 2 cuts");
}

// Records of one device do not stand for those that another lacks.
TEST(Merging, ShardsOfUnlikeDevicesAreCountedApart) {
  const RecordJson here = in_shard(record_of("v2", "10:00:00", 1.0), 1, 2);
  RecordJson there = here;
  there["shard"]["of"] = 1;
  RecordJson also = there;
  also["device"]["name"] = "B";
  EXPECT_EQ(merge({{"a", {there, also}}}).missing.size(), 2u);
}

TEST(Merging, TheRestMayBeOfNoShard) {
  RecordJson v2 = in_shard(record_of("v2", "10:00:00", 1.0), 1, 2);
  v2["shard"]["of"] = 1;
  EXPECT_EQ(merge({{"a", {v2}}}).missing.size(), 1u);
  EXPECT_EQ(merge({{"a", {v2, record_of("naive", "10:00:00", 2.0)}}}).missing, Texts{});
}

// Nobody can tell of which shard they are, but that all is there can be told.
TEST(Merging, AMissingShardMayBeOfNoShard) {
  RecordJson v2 = in_shard(record_of("v2", "10:00:00", 1.0), 1, 1);
  v2["shard"]["of"] = 2;
  v2["shard"]["sweep_points"] = 3;
  const RecordJson naive = record_of("naive", "10:00:00", 2.0);
  EXPECT_EQ(merge({{"a", {v2, naive}}}).missing,
            (Texts{"Sweep s: shard 2/2 has no records here.",
                   "Sweep s: 1 point of no shard may be among what they lack."}));
  EXPECT_EQ(merge({{"a", {v2, naive, record_of("v3", "10:00:00", 2.0)}}}).missing, Texts{});
}

// The later device's record neither replaces the other's nor stands in its row.
TEST(Merging, UnlikeDevicesShareNoRowOfATable) {
  RecordJson there = record_of("naive", "10:00:00", 2.0);
  there["device"]["name"] = "B";
  const Merged merged = merge({{"a", {record_of("v2", "10:00:00", 1.0)}},
                               {"b", {there, record_of("v2", "10:00:00", 4.0)}}});
  RecordJson also = record_of("v2", "10:00:00", 4.0);
  also["device"]["name"] = "B";
  std::vector<RecordJson> all = merged.records;
  all.push_back(also);
  for (const TableOptions& options :
       {TableOptions{.rows = {"seqlen"}}, TableOptions{.cols = {"kernel"}}}) {
    TableOptions asked = options;
    asked.values = {"time_ms"};
    asked.format = TableFormat::csv;
    const std::string table = render_table(all, asked);
    EXPECT_PRED2(contains, table, "\n64,A,") << table;
    EXPECT_PRED2(contains, table, "\n64,B,") << table;
  }
  const std::string csv = render_table(all, {.format = TableFormat::csv});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 3) << csv;
}

}  // namespace
}  // namespace attnlab
