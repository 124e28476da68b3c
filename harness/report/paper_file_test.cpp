#include "harness/report/paper_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Makes a file with a claim of each of two kinds, which the reader takes.
Json good() {
  return Json::parse(R"({
    "schema": "attnlab.paper/1", "name": "some", "title": "Some experiment",
    "budget": {"minutes": 2, "memory_gib": 1.5, "cpu_minutes": 1},
    "sweep": {"peers": ["torch:eager"], "axes": {"kernel": "naive,v1", "seqlen": [128, 256]},
              "exclude": [{"where": {"kernel": "torch:eager", "seqlen": 256}, "reason": "slow"}]},
    "cpu": {"replace": {"batch": 2}, "keep": {"seqlen": 128}, "peers": []},
    "quick": {"keep": {"seqlen": 128}, "protocol": {"max_rounds": 3, "min_rounds": 3}},
    "tables": [{"published": "t", "where": {"pass": "fwd"}, "value": "time_ms",
                "rows": {"key": "method", "select": {
                  "PyTorch": {"kernel": "torch:eager", "value": "peak_mib", "scale": 2},
                  "Other": "not implemented here"}, "beside": {"naive": {"kernel": "naive"}}},
                "columns": {"field": "seqlen"}, "notes": ["A note."]}],
    "headlines": ["h"],
    "claims": [
      {"id": "faster", "tables": ["t", "h"], "text": "It is faster.", "source": "p. 1",
       "kind": "ratio", "value": "time_ms", "of": {"kernel": "naive"}, "over": {"kernel": "v1"},
       "where": {"seqlen": [128, 256]}, "statistic": "least", "published": 2,
       "reproduced": {"at_least": 2}, "shape": {"at_least": 1}, "tolerance": 0.05},
      {"id": "linear", "tables": ["t"], "text": "It is linear.", "source": "p. 2",
       "kind": "growth", "value": "peak_mib", "of": {"kernel": "v1"}, "along": "seqlen",
       "where": {"seqlen": [128, 256]}, "reproduced": {"at_most": 1}}]})");
}

class PaperFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("attnlab-papers-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  PaperFile read(const Json& json, const std::string& name = "some") const {
    const fs::path file = folder_ / (name + ".paper.json");
    std::ofstream(file) << json.dump();
    return read_paper(file, builtin_registry());
  }
  // Returns what the reader says of the good file after a change.
  std::string says(const std::function<void(Json&)>& change) const {
    Json json = good();
    change(json);
    return usage_error([&] { read(json); });
  }

  fs::path folder_;
};

TEST_F(PaperFiles, HoldWhatTheySay) {
  const PaperFile paper = read(good());
  EXPECT_EQ(paper.budget.cpu_minutes, 1.0);
  EXPECT_EQ(paper.sweep["name"], "some");
  EXPECT_TRUE(paper.has_cpu && paper.has_quick);
  ASSERT_EQ(paper.tables.size(), 1u);
  const PaperTable& table = paper.tables.front();
  EXPECT_EQ(table.rows.key, Texts{"method"});
  EXPECT_EQ(table.rows.entries.at(0).rule->scale, 2.0);
  EXPECT_EQ(table.rows.entries.at(0).rule->value, "peak_mib");
  EXPECT_EQ(table.rows.entries.at(1).reason, "not implemented here");
  EXPECT_EQ(table.rows.beside.at(0).name, "naive");
  ASSERT_EQ(paper.claims.size(), 2u);
  EXPECT_EQ(paper.claims[0].where, (Conditions{{"seqlen", {"128", "256"}}}));
  EXPECT_EQ(paper.claims[0].statistic, ClaimStatistic::least);
  EXPECT_EQ(paper.claims[0].shape.at_least, 1.0);
  EXPECT_EQ(paper.claims[1].along, "seqlen");
}

TEST_F(PaperFiles, AreReadStrictly) {
  using J = Json&;
  const std::pair<std::function<void(J)>, const char*> wrong[] = {
      {[](J j) { j["extra"] = 1; }, "unknown key 'extra'"},
      {[](J j) { j.erase("budget"); }, "key 'budget' is missing"},
      {[](J j) { j["schema"] = "attnlab.paper/2"; }, "is not \"attnlab.paper/1\""},
      {[](J j) { j["name"] = "other"; }, "name: 'other' is not the file's"},
      {[](J j) { j["budget"]["minutes"] = -1; }, "budget.minutes: -1 is outside"},
      {[](J j) { j["sweep"]["name"] = "s"; }, "sweep: has no 'name'"},
      {[](J j) { j["sweep"]["axes"]["seqlenn"] = 1; }, "unknown axis 'seqlenn'"},
      {[](J j) { j["sweep"]["peers"] = "torch:egaer"; }, "sweep: peers: there is no peer"},
      {[](J j) { j["cpu"]["kep"] = 1; }, "cpu: unknown key 'kep'"},
      {[](J j) { j["cpu"]["keep"]["seqlen"] = 512; }, "cpu: the cut leaves no point"},
      {[](J j) { j["quick"]["keep"]["seqlen"] = "x"; }, "quick.keep.seqlen"},
      {[](J j) { j["quick"]["protocol"]["rounds"] = 3; }, "quick: protocol: unknown key 'rounds'"},
      {[](J j) { j["tables"][0]["valu"] = 1; }, "tables[0]: unknown key 'valu'"},
      {[](J j) { j["tables"][0]["value"] = "tim_ms"; }, "tables[0].value: unknown field 'tim_ms'"},
      {[](J j) { j["tables"][0]["where"]["pss"] = "fwd"; }, "unknown field 'pss'"},
      {[](J j) { j["tables"][0]["rows"].erase("key"); }, "rows: key 'key' is missing"},
      {[](J j) { j["tables"][0]["columns"]["key"] = "x"; }, "columns: has no 'key'"},
      {[](J j) { j["tables"][0]["columns"]["select"] = Json::object(); }, "one of 'field' and"},
      {[](J j) { j["tables"][0]["rows"]["select"]["PyTorch"]["scale"] = 0; },
       "scale: 0 is outside"},
      {[](J j) { j["claims"][0].erase("source"); }, "key 'source' is missing"},
      {[](J j) { j["claims"][0].erase("over"); }, "(faster): key 'over' is missing"},
      {[](J j) { j["claims"][0]["along"] = "seqlen"; }, "(faster): unknown key 'along'"},
      {[](J j) { j["claims"][0]["kind"] = "ration"; }, "kind: 'ration' is none of"},
      {[](J j) { j["claims"][0]["statistic"] = "median"; }, "statistic: 'median' is none of"},
      {[](J j) { j["claims"][0]["reproduced"] = Json::object(); }, "neither at_least nor at_most"},
      {[](J j) { j["claims"][0]["tolerance"] = 0.6; }, "tolerance: 0.6 is outside"},
      {[](J j) { j["claims"][0]["tables"] = {"u"}; }, "claim faster: tables: 'u' is no table"},
      {[](J j) { j["claims"][0]["where"]["seqlen"] = Json::array(); }, "must not be empty"},
      {[](J j) { j["claims"][1]["where"]["seqlen"] = 128; }, "has several values of 'seqlen'"},
      {[](J j) {
         j["claims"][1]["where"] = {{"batch", 1}};
       },
       "lacks 'seqlen', along which"},
      {[](J j) { j["claims"][1]["kind"] = "order"; }, "unknown key"},
      {[](J j) {
         j["claims"][1]["shape"] = {{"at_leats", 1}};
       },
       "unknown key 'at_leats'"},
  };
  for (const auto& [change, message] : wrong) EXPECT_PRED2(contains, says(change), message);
  EXPECT_EQ(says([](J) {}), "");
}

TEST_F(PaperFiles, ShareNoTableAndNoClaim) {
  Json other = good();
  other["name"] = "other";
  read(good());
  EXPECT_PRED2(contains, usage_error([&] {
                 read(other, "other");
                 read_papers(folder_, builtin_registry());
               }),
               "table t is in");
  other["headlines"] = {"i"};
  other["tables"][0]["published"] = "u";
  for (Json& claim : other["claims"]) claim["tables"] = {"u"};
  EXPECT_PRED2(contains, usage_error([&] {
                 read(other, "other");
                 read_papers(folder_, builtin_registry());
               }),
               "claim faster is in");
}

}  // namespace
}  // namespace attnlab
