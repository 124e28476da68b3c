#include "harness/verify/summary.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "harness/testing/test_support.h"

namespace attnlab::verify {
namespace {

std::vector<Result> results() {
  const Result passed = {.name = "v2/shapes/a", .kernel = "v2", .seconds = 0.25};
  Result skipped = {.name = "v2/shapes/b", .kernel = "v2", .outcome = Outcome::skipped};
  skipped.message = "has no tiles to choose";
  Result also_skipped = skipped;
  also_skipped.name = "v2/shapes/c";
  Result failed = {.name = "minimal/random/7/13/fwd",
                   .kernel = "minimal",
                   .part = Part::random,
                   .pass = Pass::fwd,
                   .outcome = Outcome::failed,
                   .check = "exception"};
  failed.message = "threw '<a & \"b\">'\x01\x1B[31m\n\ttab, \xC3\xA9, \xFF end";
  failed.repro = "attnlab verify --only 'x y'";
  failed.seconds = 1.5;
  return {passed, skipped, also_skipped, failed};
}

TEST(VerifyReport, CountsKernelsByParts) {
  EXPECT_EQ(render_summary(results(), TableFormat::table),
            "         ---- shapes ----  ---- random ----\n"
            "kernel   pass  fail  skip  pass  fail  skip  time_s\n"
            "---------------------------------------------------\n"
            "v2          1     0     2     0     0     0     0.2\n"
            "minimal     0     0     0     0     1     0     1.5\n");
  EXPECT_EQ(render_skipped(results()),
            "Skipped, with the number of checks:\n"
            "     2 v2: has no tiles to choose\n");
  const auto json = nlohmann::json::parse(render_summary(results(), TableFormat::json));
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[1]["reason"], "has no tiles to choose");
  EXPECT_EQ(json[3]["repro"], "attnlab verify --only 'x y'");
}

TEST(VerifyReport, CountsRandomProblemsByPass) {
  EXPECT_EQ(render_random({{.name = "v2/shapes/a", .kernel = "v2", .pass = Pass::fwd}}), "");
  std::vector<Result> all = results();
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwd}) {
    all.push_back({.kernel = "v2", .part = Part::random, .pass = pass});
  }
  all.back().outcome = Outcome::failed;  // failures are judged as well
  all.push_back({.kernel = "v2", .part = Part::random, .outcome = Outcome::skipped});
  all.push_back(
      {.name = "v2/random/e4m3/7/0/fwd", .kernel = "v2", .part = Part::random, .pass = Pass::fwd});
  EXPECT_EQ(render_random(all),
            "Random problems judged, by pass, and forward of e4m3:\n"
            "kernel   fwd  bwd  fwdbwd  e4m3\n"
            "-------------------------------\n"
            "v2         2    1       0     1\n"
            "minimal    1    0       0     0\n");
}

TEST(VerifyReport, CutsTooManyFailuresWithACount) {
  std::vector<Result> many(5, results().back());
  const std::string text = render_failures(many, 2);
  EXPECT_PRED2(contains, text, "FAILED minimal/random/7/13/fwd\n  caught by exception\n");
  EXPECT_PRED2(contains, text, "\n  attnlab verify --only 'x y'\n");
  EXPECT_PRED2(contains, text, "... and 3 more\n");
  EXPECT_EQ(render_failures({}, 2), "");
}

// Returns what Python's parser reads out of the report.
std::string parsed_by_python(const std::filesystem::path& file) {
  const TestFile program(".py", R"(
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
print(root.tag, root.get("tests"), root.get("failures"), root.get("skipped"))
for suite in root:
    print(suite.get("name"), suite.get("tests"), [case.get("name") for case in suite])
failure = root.find(".//failure")
print(repr(failure.get("message")), failure.text.split("\n")[-1], failure.get("type"))
)");
  std::string text;
  std::FILE* pipe = popen(
      ("python3 '" + program.path().string() + "' '" + file.string() + "' 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), n);
  }
  pclose(pipe);
  return text;
}

TEST(VerifyReport, JunitIsReadByAnXmlParser) {
  const TestFile file(".xml", render_junit(results()));
  EXPECT_EQ(parsed_by_python(file.path()),
            "testsuites 4 1 2\n"
            "cpu.minimal.random 1 ['minimal/random/7/13/fwd']\n"
            "cpu.v2.shapes 3 ['v2/shapes/a', 'v2/shapes/b', 'v2/shapes/c']\n"
            "'threw \\'<a & \"b\">\\'\\\\x01\\\\x1B[31m\\n\\ttab, é, \\\\xFF end' "
            "attnlab verify --only 'x y' exception\n");
}

TEST(VerifyReport, JunitOfNothingIsAReportToo) {
  EXPECT_PRED2(contains, render_junit({}), "<testsuites name=\"attnlab verify\" tests=\"0\"");
}

}  // namespace
}  // namespace attnlab::verify
