#include "harness/report/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/testing/test_records.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

TEST(Table, NothingFromNothing) { EXPECT_EQ(render_table({}, {}), "no records\n"); }

TEST(Table, UnknownFieldsAreSuggested) {
  TableOptions options;
  options.rows = {"seqlne"};
  EXPECT_EQ(usage_error([&] { render_table(small(), options); }),
            "--rows: unknown field 'seqlne'; did you mean 'seqlen'?");
}

TEST(Table, DifferentPointsNeverShareACell) {
  TableOptions options;
  options.rows = {"seqlen"};
  EXPECT_PRED2(contains, usage_error([&] { render_table(small(), options); }),
               "they differ in mask; name that in --rows or --cols");
  options.where = {{"mask", {"causal"}}};
  EXPECT_EQ(usage_error([&] { render_table(small(), options); }), "");
  options.rows = {"seqlen", "kernel"};
  options.cols = {"kernel"};
  EXPECT_NE(usage_error([&] { render_table(small(), options); }), "");
  options.where = {{"mask", {"none of them"}}};
  EXPECT_PRED2(contains, usage_error([&] { render_table(small(), options); }), "no record is left");
}

TEST(Table, TheLastRecordOfAPointCounts) {
  Records records = small();
  Records again = small();
  RecordJson& record = point(again, "32x32", "none", 64);
  record["time"]["median_s"] = 77e-3;
  record["build"]["commit"] = "later";
  records.push_back(record);
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "77.00");
  EXPECT_PRED2(contains, table, "16 points:");
  EXPECT_PRED2(contains, table, "1 earlier record of the same points left out");
  TableOptions options;
  options.format = TableFormat::csv;
  const std::string csv = render_table(records, options);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 17);
  options.format = TableFormat::table;
  options.cols = {"kernel", "commit"};  // now they are different columns
  EXPECT_FALSE(contains(render_table(records, options), "earlier record"));
}

TEST(Table, NumbersAscendAndTextKeepsItsOrder) {
  Records records = small();
  std::reverse(records.begin(), records.end());  // 128 before 64, causal before none
  TableOptions options;
  options.rows = {"seqlen", "mask"};
  options.where = {{"kernel", {"naive"}}};
  options.format = TableFormat::json;
  const auto rows = RecordJson::parse(render_table(records, options));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["seqlen"], 64);
  EXPECT_EQ(rows[0]["mask"], "causal");
  EXPECT_EQ(rows[1]["mask"], "none");
  EXPECT_EQ(rows[3]["seqlen"], 128);
}

TEST(Table, ShipsItsReasons) {
  const std::string table = render_table(small(), {});
  EXPECT_PRED2(contains, table, "[1] ");
  EXPECT_PRED2(contains, table, "no kernel 'v3' on backend cpu; there are: naive, v2");
  EXPECT_PRED2(contains, table, "oom [");
  EXPECT_PRED2(contains, table, "failed [");
  EXPECT_PRED2(contains, table, "skipped [");
  EXPECT_LE(width(table), kPageWidth);
}

TEST(Table, ASpeedupOverAnotherNamesIt) {
  Records records = small();
  const std::string table = render_table(records, {.speedup_over = "v2"});
  EXPECT_PRED2(contains, table, "over v2");
  EXPECT_FALSE(contains(table, "speedup")) << table;
  const auto ratio = [&](const std::string& block) {
    return value(point(records, block, "none", 64), "speedup");
  };
  add_speedups(records, "v2");
  EXPECT_EQ(ratio("64x64"), "1") << "the fastest of its tiles is what all are compared with";
  EXPECT_DOUBLE_EQ(std::stod(ratio("32x32")), 0.025 / 0.030);
  EXPECT_EQ(value(point(records, "64x64", "none", 64), "speedup_over"), "v2");
}

TEST(Table, OfATimeTakenAgainTheLastCountsAndOfProtocolsTheSame) {
  Records records = small();
  const auto speedup = [](Records all) {
    add_speedups(all, "naive");
    return value(point(all, "32x32", "none", 64), "speedup");
  };
  const RecordJson naive = *std::find_if(records.begin(), records.end(), [](const auto& record) {
    return record["kernel"] == "naive" && record["problem"]["seqlen_q"] == 64;
  });
  EXPECT_EQ(speedup(records), "2");
  records.push_back(naive);
  records.back()["time"]["median_s"] = 9e-5;
  EXPECT_EQ(speedup(records), "3");
  records.push_back(naive);
  records.back()["protocol"]["cache"] = "cold";
  records.back()["time"]["median_s"] = 12e-5;
  EXPECT_EQ(speedup(records), "3");
  records.back()["protocol"]["cache"] = "hot";
  EXPECT_EQ(speedup(records), "4");
}

TEST(Table, ABaseWithoutATimeIsSaidAndOneThatIsNotThereIsRefused) {
  EXPECT_PRED2(contains, render_table(small(), {.speedup_over = "v3"}),
               "\nNo speedup over v3: it has no time on these cases.\n");
  const std::string error = usage_error([] { render_table(small(), {.speedup_over = "navie"}); });
  EXPECT_EQ(error,
            "--speedup-over: 'navie' is none of the kernels and peers here; did you mean 'naive'?");
}

TEST(Table, OtherUnitsAddNoDigits) {
  Records all = small();
  for (RecordJson& record : all) {
    if (record["time"].is_object()) record["time"]["median_s"] = 0.000698127;
  }
  for (const TableFormat format : {TableFormat::csv, TableFormat::json}) {
    TableOptions options;
    options.values = {"time_ms"};
    options.format = format;
    const std::string text = render_table(all, options);
    EXPECT_PRED2(contains, text, "0.698127");
    EXPECT_FALSE(contains(text, "0.69812699")) << text;
  }
}

TEST(Table, JsonIsParsableAndExact) {
  TableOptions options;
  options.format = TableFormat::json;
  const auto points = RecordJson::parse(render_table(small(), options));
  ASSERT_EQ(points.size(), 16u);
  EXPECT_EQ(points[0]["status"], "unsupported");
  EXPECT_TRUE(points[0]["time_ms"].is_null());
  options.rows = {"mask", "seqlen"};
  options.values = {"time_ms"};
  const auto rows = RecordJson::parse(render_table(small(), options));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["mask"], "none");
  EXPECT_EQ(rows[0]["cells"].size(), 4u);
  EXPECT_EQ(rows[0]["cells"][1]["block"], "32x32");
  EXPECT_DOUBLE_EQ(rows[0]["cells"][1]["time_ms"].get<double>(), 0.03);
}

}  // namespace
}  // namespace attnlab
