// Tests which columns a table has where nobody named them all, and what fits the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/report/table.h"
#include "harness/testing/test_records.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Makes records of v2 at two lengths: it chose the tile 64x64 at the short, 32x32 at the long one.
Records chosen_tiles() {
  Records records = small();
  Records chosen = {point(records, "64x64", "causal", 64), point(records, "32x32", "causal", 128)};
  for (RecordJson& record : chosen) record["config_asked"] = {{"block_m", 0}, {"block_n", 0}};
  return chosen;
}

RecordJson with_tile(RecordJson record, int block_m, int block_n) {
  record["config"] = {{"block_m", block_m}, {"block_n", block_n}};
  record["config_asked"] = nullptr;
  return record;
}

TEST(Table, ADefaultTableThatIsTooWideListsPoints) {
  Records records = small();
  const std::size_t count = records.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const char* name : {"one", "two", "three"}) {
      RecordJson other = records[i];
      other["kernel"] = name;
      records.push_back(other);
    }
  }
  const std::string table = render_table(records, {});
  EXPECT_LE(width(table), kPageWidth);
  EXPECT_PRED2(contains, table, "kernel");
  EXPECT_GT(std::count(table.begin(), table.end(), '\n'), 60);
}

// Five kernels do not fit with all three values: time alone does.
TEST(Table, ADefaultTableDropsValuesBeforeItListsPoints) {
  Records records = small();
  std::erase_if(records, [&](const RecordJson& record) {
    return record["kernel"] == "v3" || value(record, "block") == "64x64";
  });
  const std::size_t count = records.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const char* name : {"one", "two", "three"}) {
      RecordJson other = records[i];
      other["kernel"] = name;
      other["key"] = nullptr;
      records.push_back(other);
    }
  }
  std::erase_if(records, [&](const RecordJson& record) {
    return record["kernel"] != "naive" && value(record, "block").empty();
  });
  const std::string table = render_table(records, {});
  EXPECT_LE(width(table), kPageWidth);
  EXPECT_PRED2(contains, table, "-- three");
  EXPECT_PRED2(contains, table, "ms");
  EXPECT_FALSE(contains(table, "speedup")) << table;
  EXPECT_LT(std::count(table.begin(), table.end(), '\n'), 20) << table;
}

TEST(Table, OnlyWhatWasQuantisedHasAColumnOfIt) {
  Records records = small();
  const TableOptions options = {.rows = {"mask", "seqlen"}, .cols = {"kernel", "block"}};
  const std::string without = render_table(records, options);
  EXPECT_EQ(without.find("quantise"), std::string::npos) << without;
  point(records, "32x32", "causal", 128)["quantise"] = {{"median_s", 1.25e-3}, {"bytes", 1000}};
  const std::string with = render_table(records, options);
  const std::size_t title = with.find("quantise ms");
  ASSERT_NE(title, std::string::npos) << with;
  EXPECT_EQ(with.find("quantise ms", title + 1), std::string::npos) << with;
  EXPECT_NE(with.find("1.25"), std::string::npos) << with;
}

TEST(Table, ConfigsThatVaryTellColumnsApart) {
  Records records = passes();
  std::erase_if(records, [&](const RecordJson& record) { return record["kernel"] != "v2"; });
  std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "v2 deterministic=0");
  EXPECT_PRED2(contains, table, "v2 deterministic=1");
  records = passes();
  std::erase_if(records, [&](const RecordJson& record) { return record["kernel"] != "v1"; });
  table = render_table(records, {});
  EXPECT_PRED2(contains, table, "v1 32x32 sram=2048");
  records.front()["config"]["mystery"] = 1;
  records.push_back(records.front());
  records.back()["config"]["mystery"] = 2;
  EXPECT_PRED2(contains, render_table(records, {}), "mystery=2");
}

TEST(Table, WhatAKernelChoseDoesNotTellItsColumnsApart) {
  Records records = chosen_tiles();
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "-- v2 --");
  EXPECT_FALSE(contains(table, "32x32")) << table;
  EXPECT_PRED2(contains, render_table(records, {.values = {"block"}}), "64x64");
  EXPECT_PRED2(contains, render_table(records, {.cols = {"kernel", "block"}}), "v2 64x64");
  for (RecordJson& record : records) record.erase("config_asked");
  EXPECT_PRED2(contains, render_table(records, {}), "v2 64x64") << "older records";
}

TEST(Table, WhatWasAskedForTellsColumnsApart) {
  Records records = chosen_tiles();
  records.push_back(with_tile(records[0], 16, 16));
  records.push_back(with_tile(records[1], 16, 16));
  // Both passes in one have a tile each, so what is open stays open.
  records.push_back(with_tile(records[0], 0, 0));
  records.back()["id"] = "fwdbwd";
  records.back()["problem"]["pass"] = "fwdbwd";
  TableOptions options;
  options.cols = {"kernel"};
  options.format = TableFormat::json;
  const RecordJson rows = RecordJson::parse(render_table(records, options));
  ASSERT_EQ(rows.size(), 3U);
  for (const RecordJson& row : rows) {
    EXPECT_TRUE(row["cells"][0]["block"].is_null()) << row;
    if (row["pass"] == "fwdbwd") continue;
    EXPECT_EQ(row["cells"][1]["block"], "16x16") << row;
  }
}

// Records of another device, say, are both shown, told apart by any difference that there is.
TEST(Table, DifferentChoicesForOneProblemShareNoCell) {
  Records records = chosen_tiles();
  records.push_back(records.front());
  records.back()["config"] = {{"block_m", 16}, {"block_n", 16}};
  records.back()["device"]["name"] = "another";
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "v2 64x64");
  EXPECT_PRED2(contains, table, "v2 16x16");
  TableOptions options;
  options.cols = {"kernel", "device"};
  const std::string by_device = render_table(records, options);
  EXPECT_PRED2(contains, by_device, "v2 another");
  EXPECT_FALSE(contains(by_device, "16x16")) << by_device;
}

// The rate goes first of three values: the ratio was asked for.
TEST(Table, ASpeedupThatWasAskedForStaysOnANarrowPage) {
  Records records = small();
  std::erase_if(records, [](const RecordJson& record) { return record["kernel"] == "v3"; });
  const std::size_t count = records.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (value(records[i], "block") != "32x32") continue;
    records.push_back(records[i]);
    records.back()["kernel"] = "another";
  }
  const std::string table = render_table(records, {.speedup_over = "naive"});
  EXPECT_LE(width(table), kPageWidth);
  EXPECT_PRED2(contains, table, "over naive");
  EXPECT_FALSE(contains(table, "GFLOP/s")) << table;
}

TEST(Table, LargeRatesAreTeraflops) {
  Records records = small();
  EXPECT_PRED2(contains, render_table(records, {}), "GFLOP/s");
  point(records, "32x32", "none", 64)["time"]["median_s"] = 1e-9;
  EXPECT_PRED2(contains, render_table(records, {}), "TFLOP/s");
}

}  // namespace
}  // namespace attnlab
