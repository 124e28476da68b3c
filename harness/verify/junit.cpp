// Renders the JUnit report.
#include <fmt/format.h>

#include <map>

#include "harness/base/xml.h"
#include "harness/verify/summary.h"

namespace attnlab::verify {

namespace {

struct Suite {
  std::string cases;
  std::size_t tests = 0, failures = 0, skipped = 0;
  double seconds = 0.0;
};

std::string counts(const Suite& suite) {
  return fmt::format(R"(tests="{}" failures="{}" errors="0" skipped="{}" time="{:.3f}")",
                     suite.tests, suite.failures, suite.skipped, suite.seconds);
}

void add(const Result& result, const std::string& suite_name, Suite& suite) {
  ++suite.tests;
  suite.seconds += result.seconds;
  suite.cases += fmt::format(R"(    <testcase classname="{}" name="{}" time="{:.3f}")",
                             xml_escaped(suite_name), xml_escaped(result.name), result.seconds);
  switch (result.outcome) {
    case Outcome::passed: suite.cases += "/>\n"; break;
    case Outcome::skipped:
      ++suite.skipped;
      suite.cases +=
          fmt::format("><skipped message=\"{}\"/></testcase>\n", xml_escaped(result.message));
      break;
    case Outcome::failed:
      ++suite.failures;
      suite.cases += fmt::format("><failure type=\"{}\" message=\"{}\">{}</failure></testcase>\n",
                                 xml_escaped(result.check), xml_escaped(result.message),
                                 xml_escaped(result.message + "\n" + result.repro));
      break;
  }
}

}  // namespace

std::string render_junit(const std::vector<Result>& results) {
  std::map<std::string, Suite> suites;
  Suite all;
  for (const Result& result : results) {
    const std::string name =
        fmt::format("{}.{}.{}", to_string(result.backend), result.kernel, to_string(result.part));
    add(result, name, suites[name]);
  }
  std::string body;
  for (const auto& [name, suite] : suites) {
    body += fmt::format("  <testsuite name=\"{}\" {}>\n{}  </testsuite>\n", xml_escaped(name),
                        counts(suite), suite.cases);
    all.tests += suite.tests;
    all.failures += suite.failures;
    all.skipped += suite.skipped;
    all.seconds += suite.seconds;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"attnlab verify\" {}>\n{}"
      "</testsuites>\n",
      counts(all), body);
}

}  // namespace attnlab::verify
