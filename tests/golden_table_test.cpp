// Compares whole tables from a committed record file. To accept new output, run with
// ATTNLAB_UPDATE_GOLDEN=1 and read the difference before committing it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "harness/report/table.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

struct Golden {
  const char* records;
  const char* file;
  TableOptions options;
};

void PrintTo(const Golden& golden, std::ostream* stream) { *stream << golden.file; }

class GoldenTable : public testing::TestWithParam<Golden> {};

TEST_P(GoldenTable, IsUnchanged) {
  std::vector<std::string> warnings;
  const auto records = read_records(in_tree("tests/data/") + GetParam().records, warnings);
  EXPECT_TRUE(warnings.empty());
  const std::string table = render_table(records, GetParam().options);
  const std::string file = in_tree("tests/golden/") + GetParam().file;
  if (std::getenv("ATTNLAB_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << table;
  std::ifstream stream(file);
  ASSERT_TRUE(stream) << file;
  std::stringstream expected;
  expected << stream.rdbuf();
  EXPECT_EQ(table, expected.str());
}

const Golden kGolden[] = {
    {"small.jsonl", "default.txt", {}},
    {"small.jsonl", "default.md.txt", {.format = TableFormat::markdown}},
    {"small.jsonl",
     "long.csv.txt",
     {.values = {"time_ms", "gflops", "speedup"}, .format = TableFormat::csv}},
    {"small.jsonl",
     "pivot.txt",
     {.rows = {"seqlen", "mask"}, .cols = {"kernel"}, .values = {"time_ms"}}},
    {"small.jsonl",
     "pivot.csv.txt",
     {.rows = {"seqlen", "mask"},
      .cols = {"kernel"},
      .values = {"time_ms"},
      .format = TableFormat::csv}},
    {"small.jsonl",
     "memory.txt",
     {.rows = {"kernel", "block"},
      .cols = {"seqlen"},
      .values = {"workspace_mib", "peak_mib", "compulsory_mib", "requested_mib", "intensity"},
      .where = {{"mask", {"none"}}, {"kernel", {"naive", "v2"}}}}},
    {"small.jsonl",
     "pivot.json.txt",
     {.rows = {"mask"},
      .values = {"time_ms", "max_abs"},
      .where = {{"seqlen", {"64"}}},
      .format = TableFormat::json}},
    {"passes.jsonl", "passes.txt", {.where = {{"kernel", {"naive", "minimal", "v2"}}}}},
    {"passes.jsonl", "configs.txt", {.where = {{"kernel", {"v1", "v3"}}}}},
    {"passes.jsonl",
     "tiles.txt",
     {.rows = {"pass"},
      .values = {"tiles_empty", "tiles_partial", "tiles_full", "saved_mib", "worst_tensor"},
      .where = {{"kernel", {"v2"}}}}},
};

INSTANTIATE_TEST_SUITE_P(Tables, GoldenTable, testing::ValuesIn(kGolden));

}  // namespace
}  // namespace attnlab
