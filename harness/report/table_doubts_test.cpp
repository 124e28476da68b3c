// Tests what a table says beside its numbers: marks, and notes on how far they can be compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/report/table.h"
#include "harness/testing/test_records.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Gives every time an interval of so many percent to a side.
Records with_intervals(Records records, double percent) {
  for (RecordJson& record : records) {
    if (record["time"].is_null()) continue;
    const double half = record["time"]["median_s"].get<double>() * percent / 100.0;
    record["time"]["ci95_s"] = {0.0, 2.0 * half};
  }
  return records;
}

TEST(Table, SaysWherePointsAreOfSeveralRuns) {
  const auto table = [](const Records& records) {
    std::string text = render_table(records, {});
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  Records records = small();
  EXPECT_FALSE(contains(table(records), " runs")) << "older records of one commit do not tell";
  records.front()["build"]["commit"] = "fedcba987654";
  EXPECT_PRED2(contains, table(records), "The points are of 2 runs of 2 commits: times of");
  records = small();
  for (RecordJson& record : records) record["run"] = "0123456789abcdef";
  EXPECT_FALSE(contains(table(records), " runs"));
  records.back()["run"] = "fedcba9876543210";
  EXPECT_PRED2(contains, table(records), "The points are of 2 runs: times of different runs");
}

// The times of naive did not settle, so neither did what is compared with them.
TEST(Table, WhatDidNotSettleIsMarkedAndCounted) {
  Records records = with_intervals(small(), 1.0);
  for (RecordJson& record : records) {
    if (record["time"].is_null()) continue;
    record["time"]["telemetry"] = {{"settled", record["kernel"] != "naive"}};
  }
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, " !0.0600   !17.48  0.0300    34.95    !2.00 ");
  EXPECT_PRED2(contains, table, "! 4 of 9 points did not settle: ");
  TableOptions errors;
  errors.values = {"ratio_to_twin"};
  EXPECT_FALSE(contains(render_table(records, errors), "did not settle"));
}

// Records of older versions say which share was compared, and not how many rows.
TEST(Table, WhatWasVerifiedBySamplesIsSaid) {
  Records records = small();
  std::erase_if(records, [](const RecordJson& record) { return record["status"] != "ok"; });
  EXPECT_FALSE(contains(render_table(records, {}), "sampled"));
  const auto verdict = [](const char* tensor, double coverage) {
    return RecordJson{{"tensor", tensor}, {"coverage", coverage}, {"ratio_to_twin", 1.0}};
  };
  records.at(0)["verify"] = RecordJson::array({verdict("o", 1.0), verdict("dk", 0.25)});
  records.at(0)["verify_timed"] = RecordJson::array({verdict("o", 0.5)});
  TableOptions options;
  options.values = {"ratio_to_twin", "sampled"};
  const std::string share = "25 % of the keys of dk";
  EXPECT_PRED2(contains, render_table(records, options), "1.00  " + share);
  EXPECT_PRED2(contains, render_table(records, options),
               "sampled: " + share + " at the least; 1 of 9 points was not compared whole.");
  records.at(1)["verify"] = RecordJson::array({verdict("lse", 0.125)});
  records.at(1)["verify"][0].update({{"compared", 512}, {"rows", 4096}});
  EXPECT_PRED2(contains, render_table(records, {}),
               "sampled: 512 of 4096 rows of lse at the least; 2 of 9 points were not compared");
}

// A drawn head is compared whole, so the table does not call it a sample.
TEST(Table, WhatWasVerifiedOnDrawnHeadsIsSaid) {
  Records records = small();
  std::erase_if(records, [](const RecordJson& record) { return record["status"] != "ok"; });
  records.at(0)["verify"] = RecordJson::array({{{"tensor", "o"},
                                                {"coverage", 0.125},
                                                {"compared", 512},
                                                {"rows", 4096},
                                                {"whole_heads", true},
                                                {"ratio_to_twin", 1.0}}});
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table,
               "whole heads drawn: 512 of 4096 rows of o at the least; 1 of 9 points was not "
               "compared");
  EXPECT_FALSE(contains(table, "sampled")) << table;
}

// Sums that are not promoted are held to a bound of their own, and older records do not say it.
TEST(Table, WhatMayDriftIsSaid) {
  Records records = small();
  std::erase_if(records, [](const RecordJson& record) { return record["status"] != "ok"; });
  const RecordJson promoted = {{"tensor", "o"}, {"slope_share", 0.5}, {"ratio_to_twin", 1.0}};
  for (RecordJson& record : records) record["verify"] = RecordJson::array({promoted});
  EXPECT_FALSE(contains(render_table(records, {}), "drift"));
  const double drifts[] = {0.0025, 0.0095};
  for (std::size_t i = 0; i < std::size(drifts); ++i) {
    records.at(i)["verify"] = RecordJson::array(
        {{{"tensor", "o"}, {"drift", drifts[i]}, {"drift_share", 0.5}, {"ratio_to_twin", 1.0}}});
  }
  EXPECT_PRED2(contains, render_table(records, {}),
               "drift: o of 2 of 9 points may lie up to 0.95 % along the reference: ");
}

TEST(Table, RetriesOfTheClockAreSaid) {
  Records records = small();
  for (RecordJson& record : records) {
    if (!record["time"].is_null()) record["time"]["retries"] = record["kernel"] == "v2" ? 2 : 0;
  }
  EXPECT_PRED2(contains, render_table(records, {}),
               "The clock was started anew 10 times within the samples of 5 points: ");
  for (RecordJson& record : records) {
    if (!record["time"].is_null()) record["time"]["retries"] = nullptr;  // a peer's
  }
  EXPECT_FALSE(contains(render_table(records, {}), "anew"));
}

TEST(Table, AMedianThatIsNotFirmIsMarkedAndNoNumberMoves) {
  const std::string firm = render_table(with_intervals(small(), 2.0), {});
  EXPECT_FALSE(contains(firm, "~")) << firm;
  std::string marked = render_table(with_intervals(small(), 2.01), {});
  EXPECT_PRED2(contains, marked, " ~0.0600   ~17.48 ~0.0300   ~34.95    ~2.00 ");
  EXPECT_PRED2(contains, marked,
               "~ not firm: the 95 % interval of its median passes +-2 % (the widest is +-2.01 %)");
  EXPECT_LE(width(marked), kPageWidth);
  const std::size_t note = marked.find("\n~ ") + 1;
  marked.erase(note, marked.find("16 points") - note);
  std::replace(marked.begin(), marked.end(), '~', ' ');
  EXPECT_EQ(marked, firm);
  const TableOptions markdown{.format = TableFormat::markdown};
  EXPECT_PRED2(contains, render_table(small(), markdown), "| ~0.0600 | ~17.48 |");
  for (const TableFormat format : {TableFormat::csv, TableFormat::json}) {
    EXPECT_FALSE(contains(render_table(small(), {.format = format}), "~"));
  }
}

TEST(Table, AnIntervalThatNobodyKnowsIsNotFirm) {
  const TableOptions times{.rows = {"mask", "seqlen"}, .values = {"time_ms"}};
  const auto is_marked = [&](const Records& records) {
    return contains(render_table(records, times), "~0.0300");
  };
  Records records = with_intervals(small(), 0.5);
  RecordJson& time = point(records, "32x32", "none", 64)["time"];
  EXPECT_FALSE(is_marked(records));
  time["ci95_s"] = {"nan", "nan"};
  EXPECT_TRUE(is_marked(records));
  time["ci95_s"] = {0.00003, 0.00003};
  time["n"] = 1;
  EXPECT_TRUE(is_marked(records)) << "one sample says nothing of its spread";
  EXPECT_PRED2(contains, render_table(records, times), "(one sample has none)");
}

TEST(Table, ASpeedupIsAsFirmAsBothOfItsTimes) {
  Records records = with_intervals(small(), 0.5);
  for (RecordJson& record : records) {
    if (record["kernel"] == "naive" && !record["time"].is_null()) {
      record["time"]["ci95_s"] = {0.0, 1.0};
    }
  }
  const std::string table =
      render_table(records, {.values = {"time_ms", "speedup"}, .where = {{"kernel", {"v2"}}}});
  EXPECT_PRED2(contains, table, " 0.0300    ~2.00 ");
}

TEST(Table, RoundsThatALimitCutShortAreSaid) {
  Records records = with_intervals(small(), 0.5);
  RecordJson& time = point(records, "32x32", "none", 64)["time"];
  time["n"] = 4;
  time["rounds_asked"] = 4;
  EXPECT_FALSE(contains(render_table(records, {}), "(4 of"));
  time["rounds_asked"] = 30;
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "0.0300 (4 of 30)    34.95 ");
  EXPECT_PRED2(contains, table, "(n of N): n of N rounds; then the time limit");
  EXPECT_PRED2(contains, render_table(records, {.values = {"gflops"}}), "34.95 (4 of 30)");
}

// A comparison with a peer must say what the peer does not compute.
TEST(Table, WhatPeersComputeIsSaid) {
  Records records = small();
  EXPECT_EQ(render_table(records, {}).find("lse"), std::string::npos);
  for (RecordJson& record : records) {
    if (record["kernel"] == "naive") record["kernel"] = "torch:cudnn";
  }
  std::string text = render_table(records, {});
  std::ranges::replace(text, '\n', ' ');
  EXPECT_NE(text.find("torch:cudnn: o, and lse only with gradients"), std::string::npos) << text;
}

TEST(Table, WhoTransposesVOfE4m3IsSaid) {
  Records records = small();
  const auto is_said = [&] {
    std::string text = render_table(records, {});
    std::ranges::replace(text, '\n', ' ');
    return contains(text, "Of e4m3 they get V as it lies");
  };
  for (RecordJson& record : records) record["problem"]["dtype"] = "e4m3";
  EXPECT_FALSE(is_said()) << "there is no peer";
  for (RecordJson& record : records) {
    if (record["kernel"] == "naive") record["kernel"] = "py:a.py:f";
  }
  EXPECT_TRUE(is_said());
  for (RecordJson& record : records) record["problem"]["dtype"] = "f32";
  EXPECT_FALSE(is_said()) << "there is no e4m3";
}

}  // namespace
}  // namespace attnlab
