// Compares the schemas of sweeps/paper with the tree's files and what readers take and refuse.
#include <gtest/gtest.h>

#include "harness/report/paper_file.h"
#include "harness/report/published.h"
#include "tests/cli_fixture.h"
#include "tests/json_schema.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

const fs::path kPapers = in_tree("sweeps/paper");

const JsonSchema& paper_schema() {
  static const JsonSchema kSchema(kPapers / "paper.schema.json");
  return kSchema;
}

const JsonSchema& published_schema() {
  static const JsonSchema kSchema(kPapers / "published/published.schema.json");
  return kSchema;
}

std::vector<fs::path> files_that_end(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  EXPECT_FALSE(files.empty()) << folder;
  return files;
}

TEST(PaperSchema, EveryFieldIsDescribed) {
  expect_described(paper_schema());
  expect_described(published_schema());
}

TEST(PaperSchema, ShippedFilesFit) {
  for (const fs::path& file : files_that_end(kPapers, ".paper.json")) {
    EXPECT_EQ(paper_schema().violation(Json::parse(read(file))), "") << file;
  }
  for (const fs::path& file : files_that_end(kPapers / "published", ".published.json")) {
    EXPECT_EQ(published_schema().violation(Json::parse(read(file))), "") << file;
  }
}

// It has a claim of each kind, and whatever else a file may have.
const Json kPaper = Json::parse(R"json({
  "$schema": "paper.schema.json", "schema": "attnlab.paper/1", "name": "p", "title": "Times",
  "budget": {"minutes": 0.5, "memory_gib": 1, "cpu_minutes": 2},
  "sweep": {"peers": ["torch:eager"], "axes": [{"kernel": "naive,v1", "seqlen": [128, 256]}],
            "exclude": [{"where": {"kernel": "v1", "seqlen": 256}, "reason": "slow"}],
            "protocol": {"max_rounds": 9}},
  "cpu": {"replace": {"batch": 1}, "keep": {"seqlen": 128}, "protocol": {"max_seconds": 1},
          "peers": []},
  "quick": {"keep": {"seqlen": 128}},
  "tables": [
    {"published": "t", "where": {"pass": "fwd"},
     "rows": {"key": ["method", "pass"], "select": {
        "A": {"kernel": ["v1", "v2"], "value": "time_ms", "scale": 2, "over": {"kernel": "naive"}},
        "B": "not implemented here"}, "beside": {"C": {"kernel": "v2"}}},
     "columns": {"field": "seqlen"}, "value": "time_ms", "notes": ["A note."]},
    {"published": "u", "rows": {"key": "N", "field": "seqlen"},
     "columns": {"select": {"ms": {"head_dim": 64}}}, "value": "time_ms"}],
  "headlines": ["h"],
  "claims": [
    {"id": "a", "tables": ["t"], "text": "T.", "source": "p. 1", "kind": "ratio",
     "value": "time_ms", "of": {"kernel": "naive"}, "over": {"kernel": "v1"},
     "where": {"seqlen": [128, 256]}, "statistic": "least", "published": 2.4,
     "reproduced": {"at_least": 2.4}, "shape": {"at_least": 1, "at_most": 9}, "tolerance": 0.03,
     "applies": {"backend": "cuda"}},
    {"id": "b", "tables": ["t"], "text": "T.", "source": "p. 1", "kind": "value",
     "value": "time_ms", "of": {}, "where": {"seqlen": 128}, "statistic": "mean",
     "reproduced": {"at_most": 1}},
    {"id": "c", "tables": ["t"], "text": "T.", "source": "p. 1", "kind": "growth",
     "value": "peak_mib", "of": {"kernel": "v1"}, "along": "seqlen",
     "where": {"seqlen": [128, 256]}, "reproduced": {"at_least": 1}},
    {"id": "d", "tables": ["u"], "text": "T.", "source": "p. 1", "kind": "order",
     "value": "time_ms", "of": [{"kernel": "v1"}, {"kernel": "naive"}], "where": {"seqlen": 128},
     "tolerance": 0.01},
    {"id": "e", "tables": ["t"], "text": "T.", "source": "p. 1", "kind": "crossover",
     "value": "time_ms", "of": {"kernel": "v1"}, "over": {"kernel": "naive"}, "along": "seqlen",
     "where": {"seqlen": [128, 256]}, "reproduced": {"at_most": 256}},
    {"id": "f", "tables": ["h"], "text": "T.", "source": "p. 1", "kind": "status",
     "of": {"kernel": "v1"}, "where": {"seqlen": 128}, "expected": "out_of_memory"},
    {"id": "g", "tables": ["t"], "text": "T.", "source": "p. 1", "kind": "not_here",
     "reason": "no"}]
})json");

const Json kPublished = Json::parse(R"json({
  "$schema": "published.schema.json", "work": "A paper", "citation": "C.", "conventions": "-",
  "formulas": {"flops": "4 N^2 d"}, "consistency": "good", "missing": ["Fig. 9"],
  "errata": ["one"],
  "tables": [
    {"id": "t-1.a", "title": "Times", "what": "W", "setting": {"gpu": null, "batch": 4,
     "seqlen": [128, 256], "causal": false}, "columns": ["N", "128"],
     "rows": [{"N": "A", "128": 1}, {"N": "B", "128": null}],
     "rows_precise": [{"N": "A", "128": 1.02}, {"N": "B"}], "units": "ms",
     "source": {"kind": "table", "where": "p. 1"}, "confidence": "high", "reliability": "good",
     "note": "N"}]
})json");

std::string paper_reader_says(const Json& paper) {
  const TestFolder folder;
  const fs::path file = folder.path() / "p.paper.json";
  std::ofstream(file) << paper.dump();
  return usage_error([&] { read_paper(file, builtin_registry()); });
}

std::string published_reader_says(const Json& tables) {
  const TestFolder folder;
  std::ofstream(folder.path() / "p.published.json") << tables.dump();
  return usage_error([&] { read_published(folder.path()); });
}

TEST(PaperSchema, WhatTheReadersTakeFits) {
  expect_strict(paper_schema(), kPaper);
  EXPECT_EQ(paper_reader_says(kPaper), "");
  EXPECT_EQ(published_schema().violation(kPublished), "");
  EXPECT_EQ(published_reader_says(kPublished), "");
}

// Each fault is refused by the reader and by the schema.
void expect_refused(const Json& good, const std::vector<const char*>& patches,
                    const JsonSchema& schema, const std::function<std::string(const Json&)>& says) {
  for (const char* patch : patches) {
    const Json spoiled = good.patch(Json::parse(patch));
    EXPECT_NE(says(spoiled), "") << patch;
    EXPECT_NE(schema.violation(spoiled), "") << patch;
  }
}

TEST(PaperSchema, WhatTheReaderOfPapersRefusesDoesNotFit) {
  expect_refused(
      kPaper,
      {
          R"([{"op": "replace", "path": "/schema", "value": "attnlab.paper/2"}])",
          R"([{"op": "remove", "path": "/title"}])",
          R"([{"op": "replace", "path": "/title", "value": ""}])",
          R"([{"op": "add", "path": "/titel", "value": "T"}])",
          R"([{"op": "remove", "path": "/budget/minutes"}])",
          R"([{"op": "replace", "path": "/budget/minutes", "value": -1}])",
          R"([{"op": "add", "path": "/budget/hours", "value": 1}])",
          R"([{"op": "add", "path": "/sweep/name", "value": "p"}])",
          R"([{"op": "remove", "path": "/sweep/axes"}])",
          R"([{"op": "replace", "path": "/sweep/axes/0/seqlen", "value": "many"}])",
          R"([{"op": "add", "path": "/sweep/axes/0/seqlne", "value": 1}])",
          R"([{"op": "replace", "path": "/sweep/protocol/max_rounds", "value": 0}])",
          R"([{"op": "add", "path": "/cpu/leave", "value": {}}])",
          R"([{"op": "replace", "path": "/cpu/replace/batch", "value": 0}])",
          R"([{"op": "replace", "path": "/cpu/protocol/max_seconds", "value": -1}])",
          R"([{"op": "remove", "path": "/tables/0/value"}])",
          R"([{"op": "remove", "path": "/tables/0/rows/key"}])",
          R"([{"op": "replace", "path": "/tables/0/rows/key", "value": []}])",
          R"([{"op": "add", "path": "/tables/0/rows/field", "value": "kernel"}])",
          R"([{"op": "remove", "path": "/tables/0/columns/field"}])",
          R"([{"op": "add", "path": "/tables/0/columns/key", "value": "N"}])",
          R"([{"op": "replace", "path": "/tables/0/rows/select/B", "value": ""}])",
          R"([{"op": "replace", "path": "/tables/0/rows/select/B", "value": 1}])",
          R"([{"op": "replace", "path": "/tables/0/rows/select/A/scale", "value": 0}])",
          R"([{"op": "replace", "path": "/tables/0/rows/select/A/kernel", "value": []}])",
          R"([{"op": "replace", "path": "/tables/0/rows/select/A/kernel", "value": true}])",
          R"([{"op": "replace", "path": "/tables/0/notes", "value": "A note."}])",
          R"([{"op": "replace", "path": "/headlines", "value": "h"}])",
          R"([{"op": "remove", "path": "/claims/0/source"}])",
          R"([{"op": "replace", "path": "/claims/0/kind", "value": "ration"}])",
          R"([{"op": "remove", "path": "/claims/0/over"}])",
          R"([{"op": "remove", "path": "/claims/0/reproduced"}])",
          R"([{"op": "replace", "path": "/claims/0/reproduced", "value": {}}])",
          R"([{"op": "replace", "path": "/claims/0/statistic", "value": "median"}])",
          R"([{"op": "replace", "path": "/claims/0/tolerance", "value": 0.6}])",
          R"([{"op": "add", "path": "/claims/0/along", "value": "seqlen"}])",
          R"([{"op": "replace", "path": "/claims/0/of", "value": [{}, {}]}])",
          R"([{"op": "add", "path": "/claims/1/over", "value": {"kernel": "v1"}}])",
          R"([{"op": "remove", "path": "/claims/2/along"}])",
          R"([{"op": "add", "path": "/claims/2/statistic", "value": "mean"}])",
          R"([{"op": "remove", "path": "/claims/3/of/1"}])",
          R"([{"op": "replace", "path": "/claims/3/of", "value": {"kernel": "v1"}}])",
          R"([{"op": "add", "path": "/claims/3/shape", "value": {"at_least": 1}}])",
          R"([{"op": "remove", "path": "/claims/4/over"}])",
          R"([{"op": "replace", "path": "/claims/5/expected", "value": "failed"}])",
          R"([{"op": "add", "path": "/claims/5/value", "value": "time_ms"}])",
          R"([{"op": "remove", "path": "/claims/6/reason"}])",
          R"([{"op": "add", "path": "/claims/6/where", "value": {}}])",
      },
      paper_schema(), paper_reader_says);
}

TEST(PaperSchema, WhatTheReaderOfPublishedTablesRefusesDoesNotFit) {
  expect_refused(kPublished,
                 {
                     R"([{"op": "remove", "path": "/work"}])",
                     R"([{"op": "replace", "path": "/work", "value": ""}])",
                     R"([{"op": "add", "path": "/works", "value": "A"}])",
                     R"([{"op": "replace", "path": "/tables", "value": {}}])",
                     R"([{"op": "replace", "path": "/missing", "value": [1]}])",
                     R"([{"op": "replace", "path": "/errata", "value": "one"}])",
                     R"([{"op": "replace", "path": "/formulas", "value": []}])",
                     R"([{"op": "remove", "path": "/tables/0/units"}])",
                     R"([{"op": "add", "path": "/tables/0/unit", "value": "ms"}])",
                     R"([{"op": "replace", "path": "/tables/0/id", "value": "T 1"}])",
                     R"([{"op": "replace", "path": "/tables/0/title", "value": 1}])",
                     R"([{"op": "replace", "path": "/tables/0/note", "value": 1}])",
                     R"([{"op": "replace", "path": "/tables/0/setting/gpu", "value": 1}])",
                     R"([{"op": "add", "path": "/tables/0/setting/head", "value": 1}])",
                     R"([{"op": "replace", "path": "/tables/0/setting/seqlen", "value": ["1"]}])",
                     R"([{"op": "replace", "path": "/tables/0/columns", "value": []}])",
                     R"([{"op": "replace", "path": "/tables/0/columns/0", "value": 1}])",
                     R"([{"op": "replace", "path": "/tables/0/rows", "value": {}}])",
                     R"([{"op": "replace", "path": "/tables/0/rows/0", "value": 1}])",
                     R"([{"op": "replace", "path": "/tables/0/rows/0/N", "value": [1]}])",
                     R"([{"op": "remove", "path": "/tables/0/source/where"}])",
                     R"([{"op": "add", "path": "/tables/0/source/page", "value": 1}])",
                 },
                 published_schema(), published_reader_says);
}

// The reader alone refuses what a schema cannot express.
TEST(PaperSchema, TheReaderKnowsMore) {
  for (const char* patch : {
           R"([{"op": "replace", "path": "/name", "value": "q"}])",
           R"([{"op": "replace", "path": "/tables/0/value", "value": "time_sm"}])",
           R"([{"op": "replace", "path": "/claims/0/tables/0", "value": "x"}])",
       }) {
    EXPECT_NE(paper_reader_says(kPaper.patch(Json::parse(patch))), "") << patch;
  }
  for (const char* patch : {
           R"([{"op": "add", "path": "/tables/0/rows/0/256", "value": 1}])",
           R"([{"op": "remove", "path": "/tables/0/rows_precise/1"}])",
       }) {
    EXPECT_NE(published_reader_says(kPublished.patch(Json::parse(patch))), "") << patch;
  }
}

}  // namespace
}  // namespace attnlab
