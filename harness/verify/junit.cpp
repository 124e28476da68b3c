// The JUnit report. Written by hand, because what XML 1.0 cannot hold at all (control characters,
// bytes that are not UTF-8) must be rewritten by whoever writes it: a library would escape it into
// a file that parsers refuse.
#include <fmt/format.h>

#include <map>

#include "harness/verify/summary.h"

namespace attnlab::verify {

namespace {

// Bytes of the UTF-8 character that begins here, 0 if there is none. Source: RFC 3629.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80          ? 1
                             : byte(0) >> 5U == 0x06 ? 2
                             : byte(0) >> 4U == 0x0E ? 3
                             : byte(0) >> 3U == 0x1E ? 4
                                                     : 0;
  if (length == 0 || length > text.size()) return 0;
  std::uint32_t code = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6U != 0x02) return 0;
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kFirstOfLength[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_character = code >= kFirstOfLength[length] && code <= 0x10FFFF &&
                            (code < 0xD800 || code > 0xDFFF) && code != 0xFFFE && code != 0xFFFF;
  return is_character ? length : 0;
}

// As text or in an attribute. What XML cannot hold is written as \xNN.
std::string escaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const char c = text[i];
    const bool is_control = length == 1 && static_cast<unsigned char>(c) < 0x20;
    if (length == 0 || (is_control && c != '\n' && c != '\t')) {
      result += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
      ++i;
      continue;
    }
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\n': result += "&#10;"; break;
      case '\t': result += "&#9;"; break;
      default: result += text.substr(i, length);
    }
    i += length;
  }
  return result;
}

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
                             escaped(suite_name), escaped(result.name), result.seconds);
  switch (result.outcome) {
    case Outcome::passed: suite.cases += "/>\n"; break;
    case Outcome::skipped:
      ++suite.skipped;
      suite.cases +=
          fmt::format("><skipped message=\"{}\"/></testcase>\n", escaped(result.message));
      break;
    case Outcome::failed:
      ++suite.failures;
      suite.cases += fmt::format("><failure type=\"{}\" message=\"{}\">{}</failure></testcase>\n",
                                 escaped(result.check), escaped(result.message),
                                 escaped(result.message + "\n" + result.repro));
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
    body += fmt::format("  <testsuite name=\"{}\" {}>\n{}  </testsuite>\n", escaped(name),
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
