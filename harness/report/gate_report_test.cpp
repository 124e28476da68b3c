#include "harness/report/gate_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/testing/one_line.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

PointChange timed(const std::string& key, TimeVerdict verdict, double ratio,
                  const std::string& reason = "") {
  TimeChange time = {.verdict = verdict,
                     .reason = reason,
                     .base_s = 1e-3,
                     .now_s = ratio * 1e-3,
                     .ratio = ratio,
                     .ratio95 = {ratio - 0.01, ratio + 0.01}};
  return {.key = key, .base_status = "ok", .status = "ok", .compared = true, .time = time};
}

// Sets up one point of each kind, without records: JUnit and annotations need none.
class GateReports : public testing::Test {
 protected:
  GateReports() {
    comparison_.points = {
        timed("slow <&\">", TimeVerdict::slower, 1.1),
        timed("same", TimeVerdict::same, 1.0),
        timed("unclear", TimeVerdict::ambiguous, 1.05, "the samples of both overlap"),
        {.key = "wrong",
         .trouble = "failed: row 3 of o\nwant 1",
         .base_status = "ok",
         .status = "failed"},
        {.key = "broken",
         .trouble = "invalid: nothing",
         .base_status = "ok",
         .status = "invalid",
         .measured = false},
        {.key = "base broken",
         .trouble = "the base has none",
         .base_status = "failed",
         .status = "ok"},
        {.key = "none of both",
         .trouble = "unsupported",
         .base_status = "unsupported",
         .status = "unsupported"}};
    comparison_.pairing.missing = {{.key = "gone", .status = "ok"}};
    comparison_.pairing.extra = {{.key = "new", .status = "ok"}};
  }

  GateReport report(int code) const {
    return {.comparison = comparison_, .options = options_, .troubles = troubles_, .code = code};
  }

  Comparison comparison_;
  CompareOptions options_;
  std::vector<std::string> troubles_;
};

TEST_F(GateReports, OfJUnitNothingButSameOrFasterLooksGood) {
  const std::string xml = junit_of(report(kExitVerificationFailed));
  EXPECT_PRED2(contains, xml, R"(tests="9" failures="2" errors="5")");
  EXPECT_PRED2(contains, xml, R"(name="slow &lt;&amp;&quot;&gt;" time="0.0011">)");
  EXPECT_PRED2(contains, xml,
               R"(<failure type="worse" message="slower: 1 ms -&gt; 1.1 ms, +10.00 %)");
  EXPECT_PRED2(contains, xml, R"(name="same" time="0.001"/>)");
  EXPECT_PRED2(contains, xml, R"(<error type="ambiguous" message="ambiguous: 1 ms)");
  EXPECT_PRED2(contains, xml,
               R"(<failure type="failed" message="failed: row 3 of o&#10;want 1"/>)");
  EXPECT_PRED2(contains, xml, R"(<error type="not measured" message="invalid: nothing"/>)");
  EXPECT_PRED2(contains, xml, R"(<error type="missing" message="ok"/>)");
  EXPECT_PRED2(contains, xml, R"(<error type="ok" message="the base has none"/>)");
}

TEST_F(GateReports, WhatIsOfNoPointIsAnErrorOfItsOwn) {
  comparison_.points = {timed("same", TimeVerdict::same, 1.0)};
  comparison_.pairing = {};
  EXPECT_PRED2(contains, junit_of(report(kExitGood)), R"(tests="1" failures="0" errors="0")");
  troubles_ = {"The run of the head ended with signal 9."};
  const std::string xml = junit_of(report(kExitEnvironment));
  EXPECT_PRED2(contains, xml, R"(tests="2" failures="0" errors="1")");
  EXPECT_PRED2(contains, xml, "signal 9");
}

TEST_F(GateReports, GitHubGetsTenAnnotationsAtMost) {
  EXPECT_EQ(github_annotations(report(kExitSlower)),
            "::error title=slow <&\">::slower: 1 ms -> 1.1 ms, +10.00 %25 (+9.00 to +11.00)\n"
            "::error title=wrong::failed: row 3 of o%0Awant 1\n");
  comparison_.points.assign(30, timed("slow", TimeVerdict::slower, 1.1));
  const std::string lines = github_annotations(report(kExitSlower));
  EXPECT_EQ(std::ranges::count(lines, '\n'), 10);
}

TEST_F(GateReports, WhatRanBeyondIsInTextAndJson) {
  GateReport of_head = report(kExitGood);
  of_head.kernels = {
      {.side = "base", .unseen = {{.reason = "no CUPTI", .points = 3}}},
      {.side = "head", .beyond = {{.key = "point", .kernel = "v2", .launches = "1 Memset"}}}};
  comparison_ = {};
  for (const TableFormat format : {TableFormat::table, TableFormat::markdown}) {
    const std::string text = one_line(render_gate(of_head, format));
    EXPECT_PRED2(contains, text, "times hold it: v2: 1 Memset (1 point).");
    EXPECT_PRED2(contains, text, "ran in 3 points of the base: no CUPTI.");
  }
  const Json json = Json::parse(render_gate(of_head, TableFormat::json));
  EXPECT_EQ(json["kernels_beyond"].size(), 1u);
  EXPECT_EQ(json["kernels_beyond"][0]["key"], "point");
  EXPECT_EQ(json["kernels_unseen"][0]["points"], 3);
}

TEST_F(GateReports, OfSeveralHeadsEachIsNamedWithItsCode) {
  comparison_ = {};
  GateReport first = report(kExitGood), second = report(kExitSlower);
  first.head = "early";
  second.head = "late";
  const std::vector<GateReport> both = {first, second};
  const std::string text = render_gates(both, TableFormat::table, kExitSlower);
  EXPECT_PRED2(contains, text, "\nHead: early\n");
  EXPECT_PRED2(contains, text,
               "early: same or faster (exit code 0); late: worse (exit code 4). Exit code 4.\n");
  const std::string page = render_gates(both, TableFormat::markdown, kExitSlower);
  EXPECT_PRED2(contains, page, "\n### late\n");
  const Json json = Json::parse(render_gates(both, TableFormat::json, kExitSlower));
  EXPECT_EQ(json["exit_code"], kExitSlower);
  ASSERT_EQ(json["heads"].size(), 2u);
  EXPECT_EQ(json["heads"][0]["head"], "early");
  EXPECT_EQ(json["heads"][0]["exit_code"], kExitGood);
  EXPECT_EQ(json["heads"][1]["exit_code"], kExitSlower);
}

TEST(BenchmarkJson, HasTheMediansThatThereAre) {
  const std::vector<RecordJson> records = {
      {{"key", "a"}, {"time", {{"median_s", 2e-3}, {"ci95_s", {1.9e-3, 2.1e-3}}}}},
      {{"key", "b"}, {"time", nullptr}}};
  EXPECT_EQ(Json::parse(benchmark_json(records)),
            Json::parse(R"([{"name": "a", "unit": "ms", "value": 2.0, "range": "1.9 to 2.1"}])"));
}

}  // namespace
}  // namespace attnlab
