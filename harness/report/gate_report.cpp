#include "harness/report/gate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/xml.h"
#include "harness/report/comparison_report.h"
#include "harness/report/field.h"

namespace attnlab {
namespace {

constexpr std::size_t kLongestPage = (1u << 20) - 4096;
constexpr std::size_t kMostAnnotations = 10;

// Says what the verdict of the comparison alone leaves out; "" where it is the gate's, too.
std::string remarks_of(const GateReport& report) {
  std::string text;
  if (report.measured_again > 0) {
    text += wrap(fmt::format("{} measured again, by three more pairs of processes.",
                             count_of(report.measured_again, "point")));
  }
  if (!report.comparison.pairing.extra.empty()) {
    text += wrap("The base lacks points of the sweep, so nobody can tell what became of them.");
  }
  if (report.left_out) text += wrap("Points that did not fit --budget were left out.");
  for (const std::string& trouble : report.troubles) text += wrap(trouble);
  return text + describe(report.kernels);
}

// Says what became of a point in JUnit's terms.
struct Finding {
  enum class Kind { good, failure, error };
  Kind kind = Kind::good;
  std::string type, message;
};

Finding finding_of(const PointChange& point, const CompareOptions& options) {
  using Kind = Finding::Kind;
  if (point.status == "failed") return {Kind::failure, "failed", point.trouble};
  if (!is_judged(point)) return {Kind::error, "not measured", point.trouble};
  std::string message;
  if (point.time) {
    const TimeChange& time = *point.time;
    message = fmt::format("{}: {:.4g} ms -> {:.4g} ms, {:+.2f} % ({:+.2f} to {:+.2f}){}",
                          to_string(time.verdict), 1e3 * time.base_s, 1e3 * time.now_s,
                          100.0 * (time.ratio - 1.0), 100.0 * (time.ratio95.low - 1.0),
                          100.0 * (time.ratio95.high - 1.0),
                          time.reason.empty() ? "" : "; " + time.reason);
  }
  for (const ValueChange& value : point.values) {
    message +=
        fmt::format("{}{}: {}", message.empty() ? "" : "; ", value.what, to_string(value.verdict));
  }
  if (is_worse(point, options.fail_on)) return {Kind::failure, "worse", message};
  if (is_ambiguous(point, options.fail_on)) return {Kind::error, "ambiguous", message};
  return {Kind::good, "", message};
}

std::string test_case(const std::string& key, double seconds, const Finding& finding) {
  const std::string head = fmt::format(
      R"(  <testcase classname="attnlab.gate" name="{}" time="{:.9g}")", xml_escaped(key), seconds);
  if (finding.kind == Finding::Kind::good) return head + "/>\n";
  const char* const element = finding.kind == Finding::Kind::failure ? "failure" : "error";
  return fmt::format("{}>\n    <{} type=\"{}\" message=\"{}\"/>\n  </testcase>\n", head, element,
                     finding.type, xml_escaped(finding.message));
}

// Some signs have meanings in a workflow command: a few in its message, two more in its title.
std::string github(const std::string& text, bool is_title) {
  std::string escaped;
  for (const char c : text) {
    const bool is_special =
        c == '%' || c == '\n' || c == '\r' || (is_title && (c == ':' || c == ','));
    escaped +=
        is_special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return escaped;
}

}  // namespace

std::string render_gate(const GateReport& report, TableFormat format) {
  const std::string text =
      render_comparison(report.comparison, report.options, format, report.code);
  if (format == TableFormat::csv) return text;
  if (format != TableFormat::json) return remarks_of(report) + "\n" + text;
  auto json = nlohmann::ordered_json::parse(text);
  json["measured_again"] = report.measured_again;
  json["left_out"] = report.left_out;
  json["troubles"] = report.troubles;
  json["kernels_beyond"] = beyond_json(report.kernels);
  json["kernels_unseen"] = unseen_json(report.kernels);
  return json.dump(1) + "\n";
}

std::string render_gates(const std::vector<GateReport>& reports, TableFormat format, int code) {
  if (format == TableFormat::json) {
    nlohmann::ordered_json json = {{"schema", "attnlab.gates/1"}, {"exit_code", code}};
    for (const GateReport& report : reports) {
      nlohmann::ordered_json own = {{"head", report.head}};
      own.update(nlohmann::ordered_json::parse(render_gate(report, format)));
      json["heads"].push_back(std::move(own));
    }
    return json.dump(1) + "\n";
  }
  const bool is_markdown = format == TableFormat::markdown;
  std::string text, verdicts;
  for (const GateReport& report : reports) {
    text += fmt::format("\n{}{}\n{}", is_markdown ? "### " : "Head: ", report.head,
                        render_gate(report, format));
    verdicts += fmt::format("{}{}: {} (exit code {})", verdicts.empty() ? "" : "; ", report.head,
                            verdict_of(report.code, report.options), report.code);
  }
  return text + "\n" + wrap(fmt::format("{}. Exit code {}.", verdicts, code));
}

std::string junit_of(const GateReport& report) {
  std::string cases;
  std::size_t tests = 0, failures = 0, errors = 0;
  const auto add = [&](const std::string& key, double seconds, const Finding& finding) {
    cases += test_case(key, seconds, finding);
    ++tests;
    if (finding.kind == Finding::Kind::failure) ++failures;
    if (finding.kind == Finding::Kind::error) ++errors;
  };
  for (const PointChange& point : report.comparison.points) {
    add(point.key, point.time ? point.time->now_s : 0.0, finding_of(point, report.options));
  }
  const Pairing& pairing = report.comparison.pairing;
  for (const auto& [what, points] :
       {std::pair("missing", &pairing.missing), {"there twice", &pairing.duplicates}}) {
    for (const Unpaired& point : *points) {
      add(point.key, 0.0, {Finding::Kind::error, what, point.status});
    }
  }
  for (const Unpaired& point : pairing.extra) {
    const bool is_wrong = point.status == "failed" || point.status == "invalid";
    add(point.key, 0.0,
        {is_wrong ? Finding::Kind::failure : Finding::Kind::error, point.status,
         "the base has none"});
  }
  // A run that broke off, or points left out, belong to no test case: the gate gets one of its own.
  if (report.code != kExitGood && failures + errors == 0) {
    const std::string remarks = remarks_of(report);
    add("the whole gate", 0.0,
        {Finding::Kind::error, verdict_of(report.code, report.options), remarks});
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"attnlab gate\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"0\">\n{}</testsuite>\n",
      tests, failures, errors, cases);
}

std::string junit_of_no_end() {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<testsuite name=\"attnlab gate\" tests=\"1\" failures=\"0\" errors=\"1\" "
         "skipped=\"0\">\n" +
         test_case("the whole gate", 0.0,
                   {Finding::Kind::error, "not measured", "it did not end"}) +
         "</testsuite>\n";
}

std::string summary_page(const GateReport& report) {
  const std::string verdict = fmt::format("## attnlab gate: {} (exit code {})\n\n",
                                          verdict_of(report.code, report.options), report.code);
  std::string page = verdict + render_gate(report, TableFormat::markdown);
  if (page.size() <= kLongestPage) return page;
  page.resize(page.rfind('\n', kLongestPage) + 1);
  return page + "\nThe rest is left out here: the records have it.\n";
}

std::string github_annotations(const GateReport& report) {
  std::string lines;
  std::size_t count = 0;
  for (const PointChange& point : report.comparison.points) {
    const Finding finding = finding_of(point, report.options);
    if (finding.kind != Finding::Kind::failure || count == kMostAnnotations) continue;
    ++count;
    lines += fmt::format("::error title={}::{}\n", github(point.key, true),
                         github(finding.message, false));
  }
  return lines;
}

std::string benchmark_json(const std::vector<RecordJson>& records) {
  RecordJson entries = RecordJson::array();
  for (const RecordJson& record : records) {
    const RecordJson median = at(record, {"time", "median_s"});
    const RecordJson interval = at(record, {"time", "ci95_s"});
    if (!median.is_number()) continue;
    RecordJson entry = {
        {"name", record.at("key")}, {"unit", "ms"}, {"value", 1e3 * median.get<double>()}};
    if (interval.is_array() && interval.size() == 2) {
      entry["range"] = fmt::format("{:.4g} to {:.4g}", 1e3 * interval[0].get<double>(),
                                   1e3 * interval[1].get<double>());
    }
    entries.push_back(std::move(entry));
  }
  return entries.dump(1) + "\n";
}

}  // namespace attnlab
