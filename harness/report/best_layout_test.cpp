#include "harness/report/best_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/record/record_file.h"
#include "harness/report/fields.h"
#include "harness/report/table.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;

Records committed(const char* file) {
  std::vector<std::string> warnings;
  return read_records(in_tree(file), warnings);
}

// Returns a record of the committed eager.jsonl, made to be of this kernel, layout and time.
RecordJson record_of(const std::string& kernel, const std::string& layout, double seconds) {
  static const RecordJson kBase = committed("results/nvidia-h200/eager.jsonl").front();
  RecordJson record = kBase;
  record["kernel"] = kernel;
  record["problem"]["layout"] = layout;
  record["id"] = "fwd/" + layout;
  record["time"]["median_s"] = seconds;
  return record;
}

RecordJson failed(RecordJson record) {
  record["status"] = "failed";
  record["reason"] = "wrong";
  record["time"] = nullptr;
  return record;
}

std::string layout_of(const RecordJson& record) {
  return record["problem"]["layout"].get<std::string>();
}

TEST(BestLayout, EachCompetitorKeepsItsFaster) {
  const Records kept = keep_best_layouts(
      {record_of("naive", "bhsd", 2e-3), record_of("naive", "bshd", 1e-3),
       record_of("torch:eager", "bhsd", 3e-3), record_of("torch:eager", "bshd", 4e-3)});
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(layout_of(kept[0]), "bshd");
  EXPECT_EQ(layout_of(kept[1]), "bhsd");
}

TEST(BestLayout, ALayoutWithoutATimeIsNeverTheBestAndIsNamed) {
  const Records kept =
      keep_best_layouts({record_of("naive", "bhsd", 2e-3), failed(record_of("naive", "bshd", 1e-3)),
                         failed(record_of("torch:eager", "bhsd", 1e-3))});
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(layout_of(kept[0]), "bhsd");
  EXPECT_EQ(kept[1]["status"], "failed");
  std::string note = best_layout_note(kept);
  std::ranges::replace(note, '\n', ' ');
  EXPECT_NE(note.find("Of 1 of the 1 timed point only one layout"), std::string::npos) << note;
  EXPECT_NE(note.find("bshd failed in 1 point."), std::string::npos) << note;
}

TEST(BestLayout, OtherProblemsStayApart) {
  RecordJson other = record_of("naive", "bshd", 1e-3);
  other["problem"]["softmax_scale"] = 1.0;
  RecordJson packed = record_of("naive", "packed", 1e-3);
  RecordJson other_seed = record_of("naive", "bshd", 1e-3);
  other_seed["seed"] = 8;
  EXPECT_EQ(keep_best_layouts({record_of("naive", "bhsd", 2e-3), other, packed, other_seed}).size(),
            4u);
}

// A kernel's own choice does not make two competitors of it; what it was asked for does.
TEST(BestLayout, OfOneKernelWhatItWasAskedForCounts) {
  RecordJson a = record_of("v2", "bhsd", 2e-3), b = record_of("v2", "bshd", 1e-3);
  a["config"] = {{"block_m", 64}};
  b["config"] = {{"block_m", 128}};
  EXPECT_EQ(keep_best_layouts({a, b}).size(), 2u);
  a["config_asked"] = b["config_asked"] = {{"block_m", 0}};
  EXPECT_EQ(keep_best_layouts({a, b}).size(), 1u);
}

TEST(BestLayout, TheTableComparesBothSidesAtTheirBest) {
  const Records records = {record_of("naive", "bhsd", 2e-3), record_of("naive", "bshd", 1e-3),
                           record_of("torch:eager", "bhsd", 3e-3),
                           record_of("torch:eager", "bshd", 4e-3)};
  TableOptions options{.speedup_over = "torch:eager", .best_layout = true};
  const std::string text = render_table(records, options);
  EXPECT_NE(text.find("3.00"), std::string::npos) << text;  // 3 ms in bhsd over 1 ms in bshd
  EXPECT_NE(text.find("bshd"), std::string::npos) << text;
  EXPECT_EQ(text.find("4.00"), std::string::npos) << text;
  options.format = TableFormat::json;
  const auto rows = nlohmann::json::parse(render_table(records, options));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["layout"], "bshd");
  EXPECT_DOUBLE_EQ(rows[0]["speedup"].get<double>(), 3.0);
  options.rows = {"seqlen"};
  options.values = {"time_ms"};
  const auto pivoted = nlohmann::json::parse(render_table(records, options));
  ASSERT_EQ(pivoted.size(), 1u);
  EXPECT_EQ(pivoted[0]["cells"][1]["layout"], "bhsd");
  options.format = TableFormat::csv;
  EXPECT_NE(render_table(records, options).find("layout"), std::string::npos);
}

// There are both layouts of 32 points of two competitors.
TEST(BestLayout, OfCommittedRecordsHalfIsLeft) {
  const Records records = committed("results/nvidia-h200/eager.jsonl");
  ASSERT_EQ(records.size(), 128u);
  const Records kept = keep_best_layouts(records);
  EXPECT_EQ(kept.size(), 64u);
  for (const RecordJson& record : kept) {
    EXPECT_EQ(record["best_layout"]["timed"].size(), 2u) << record["id"];
  }
}

}  // namespace
}  // namespace attnlab
