#include "harness/report/tuning_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Records = std::vector<nlohmann::ordered_json>;

// Makes records of v1 with four configs of one problem, as on a GPU.
Records records_of_v1(const char* backend = "cuda") {
  std::vector<std::string> warnings;
  Records own;
  for (const auto& record : read_records(in_tree("tests/data/passes.jsonl"), warnings)) {
    if (record["kernel"] != "v1") continue;
    own.push_back(record);
    own.back()["backend"] = backend;
  }
  return own;
}

TEST(TuningReport, TheFastestComesFirstAndWhatFailedLast) {
  Records records = records_of_v1();
  ASSERT_EQ(records.size(), 4u);
  const double seconds[] = {4e-3, 1e-3, 3e-3, 2e-3};
  for (std::size_t i = 0; i < 4; ++i) {
    records[i]["config"]["block_m"] = 16 * (i + 1);
    records[i]["time"]["median_s"] = seconds[i];
    records[i]["compile"] = {{{"entries", {{{"registers", 100 + i}}}}}};
  }
  records[3]["status"] = "invalid";
  records[3]["reason"] = "registers spill";
  const std::string text = render_tuning(records);
  std::size_t place = 0;
  for (const char* row : {"32x", "48x", "16x", "64x"}) {
    const std::size_t next = text.find(row, place);
    ASSERT_NE(next, std::string::npos) << row << " in\n" << text;
    place = next;
  }
  EXPECT_NE(text.find("101"), std::string::npos) << text;
  EXPECT_NE(text.find("registers spill"), std::string::npos) << text;
}

// The table of one kernel does not order that of the next.
TEST(TuningReport, EveryKernelHasItsOwnOrderOfTiles) {
  Records records = records_of_v1("cpu");
  const double seconds[] = {1e-3, 2e-3, 4e-3, 3e-3};
  for (std::size_t i = 0; i < 4; ++i) {
    records[i]["kernel"] = i < 2 ? "v1" : "v2";
    records[i]["config"] = {{"block_m", 16 * (1 + i % 2)}, {"block_n", 64}};
    records[i]["time"]["median_s"] = seconds[i];
  }
  const std::string text = render_tuning(records);
  std::size_t place = 0;
  for (const char* row : {"v1      16x64", "v1      32x64", "v2      32x64", "v2      16x64"}) {
    const std::size_t next = text.find(row, place);
    ASSERT_NE(next, std::string::npos) << row << " in\n" << text;
    place = next;
  }
}

TEST(TuningReport, AConfigThatSpillsIsNoFailure) {
  Records records = records_of_v1();
  const auto compiled = [](int spilled) -> nlohmann::ordered_json {
    return {{{"entries", {{{"spill_store_bytes", spilled}, {"spill_load_bytes", 0}}}}}};
  };
  records[1]["status"] = records[2]["status"] = "invalid";
  records[1]["compile"] = compiled(8);
  records[2]["compile"] = compiled(0);
  records[3]["compile"] = compiled(8);  // it spills, and its status is ok
  const Records others = without_spilling(records);
  ASSERT_EQ(others.size(), 3u);
  EXPECT_EQ(others[1]["compile"], compiled(0));
}

TEST(TuningReport, OnACpuAreNoRegistersButBytes) {
  const std::string text = render_tuning(records_of_v1("cpu"));
  EXPECT_PRED2(contains, text, " ms  GFLOP/s  requested MiB  work MiB\n");
  for (const char* title : {"registers", "spill", "shared"}) {
    EXPECT_EQ(text.find(title), std::string::npos) << text;
  }
}

TEST(TuningReport, EveryProblemHasItsTable) {
  Records records = records_of_v1();
  records[2]["problem"]["seqlen_k"] = 4096;
  records[3]["problem"]["seqlen_k"] = 4096;
  const std::string text = render_tuning(records);
  const std::size_t first = text.find("registers");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("registers", first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace attnlab
