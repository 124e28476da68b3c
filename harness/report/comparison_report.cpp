#include "harness/report/comparison_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "harness/base/errors.h"
#include "harness/report/fields.h"
#include "harness/report/pivot.h"

namespace attnlab {
namespace {

std::string label_of(const std::vector<const Field*>& fields, const RecordJson& record) {
  std::string label;
  for (const Field* field : fields) label += exact(field->read(record)) + " ";
  return label;
}

// Chooses the fields that tell the points apart: axes that vary, the kernel, and as many of the
// others as it takes.
std::vector<const Field*> telling_fields(const std::vector<PointChange>& points) {
  std::vector<RecordJson> records;
  for (const PointChange& point : points) records.push_back(*point.record);
  std::vector<const Field*> telling;
  for (const Field* field : problem_axes(records)) {
    if (!is_constant(*field, records)) telling.push_back(field);
  }
  telling.push_back(&find_field("kernel", ""));
  for (const char* name : {"block", "regime", "cache", "input_kind", "seed", "config"}) {
    std::set<std::string> labels;
    for (const RecordJson& record : records) labels.insert(label_of(telling, record));
    if (labels.size() == records.size()) break;
    const Field& field = find_field(name, "");
    if (!is_constant(field, records)) telling.push_back(&field);
  }
  return telling;
}

// Builds a table whose first columns tell points apart.
class PointTable {
 public:
  explicit PointTable(const std::vector<PointChange>& points) : fields_(telling_fields(points)) {
    for (const Field* field : fields_) {
      const bool is_text = std::ranges::any_of(
          points, [&](const PointChange& point) { return field->read(*point.record).is_string(); });
      table_.columns.push_back({.title = field->name, .left = is_text, .key = true});
    }
  }
  void column(const std::string& title, bool left = false) {
    table_.columns.push_back({.title = title, .left = left});
  }
  void row(const PointChange& point, const std::vector<std::string>& cells) {
    std::vector<TextCell> row;
    for (const Field* field : fields_) row.push_back({display(*field, field->read(*point.record))});
    for (const std::string& cell : cells) row.push_back({cell});
    table_.rows.push_back(std::move(row));
  }
  // Returns "" where there are no rows.
  std::string text(TableFormat format) const {
    if (table_.rows.empty()) return "";
    return (format == TableFormat::markdown ? render_markdown(table_) : render_plain(table_)) +
           "\n";
  }

 private:
  std::vector<const Field*> fields_;
  TextTable table_;
};

std::string percent(double ratio) { return fmt::format("{:+.2f} %", 100.0 * (ratio - 1.0)); }

std::string milliseconds(double seconds) { return fmt::format("{:.4g}", 1e3 * seconds); }

std::string times_of(const Comparison& comparison, TableFormat format) {
  PointTable table(comparison.points);
  Footnotes footnotes;
  for (const char* title : {"base ms", "new ms", "change", "95 %"}) table.column(title);
  table.column("verdict", true);
  for (const PointChange& point : comparison.points) {
    if (!point.time) continue;
    const TimeChange& time = *point.time;
    table.row(point, {milliseconds(time.base_s), milliseconds(time.now_s), percent(time.ratio),
                      fmt::format("{:+.2f} to {:+.2f}", 100.0 * (time.ratio95.low - 1.0),
                                  100.0 * (time.ratio95.high - 1.0)),
                      footnotes.mark(to_string(time.verdict), time.reason)});
  }
  const std::string notes = footnotes.text();
  return table.text(format) + (notes.empty() ? "" : notes + "\n");
}

std::string text_of(const ValueChange& value) {
  const auto number = [](const std::optional<double>& of) {
    return of ? fmt::format("{:.12g}", *of) : "-";  // bytes are judged exactly
  };
  return fmt::format("{}: {} -> {}, {}", value.what, number(value.base), number(value.now),
                     to_string(value.verdict));
}

std::string values_of(const Comparison& comparison, TableFormat format) {
  PointTable table(comparison.points);
  table.column("another value", true);
  for (const PointChange& point : comparison.points) {
    for (const ValueChange& value : point.values) table.row(point, {text_of(value)});
  }
  return table.text(format);
}

// Lists one text of each point that has it.
template <class Text>
std::string texts_of(const Comparison& comparison, TableFormat format, const char* title,
                     const Text& text) {
  PointTable table(comparison.points);
  table.column(title, true);
  for (const PointChange& point : comparison.points) {
    if (!text(point).empty()) table.row(point, {text(point)});
  }
  return table.text(format);
}

std::string list_of(const char* title, const std::vector<Unpaired>& points, TableFormat format) {
  if (points.empty()) return "";
  const bool is_markdown = format == TableFormat::markdown;
  std::string text = fmt::format("{}:\n{}", title, is_markdown ? "\n" : "");
  for (const auto& [key, status] : points) {
    text += is_markdown ? fmt::format("- `{}`: {}\n", key, status)
                        : fmt::format("  {}: {}\n", key, status);
  }
  return text + "\n";
}

// Says from where on a change counts, which depends on the point where noise was measured.
std::string thresholds_of(const Comparison& comparison) {
  std::vector<double> percents;
  for (const PointChange& point : comparison.points) {
    if (point.time) percents.push_back(100.0 * point.time->threshold);
  }
  if (percents.empty()) return "";
  const auto [least, most] = std::ranges::minmax(percents);
  const std::string shown = least == most ? fmt::format("{:.3g} %", least)
                                          : fmt::format("{:.3g} to {:.3g} %", least, most);
  return fmt::format(" A change of time below {} is none.", shown);
}

std::string summary_of(const Comparison& comparison, const CompareOptions& options, int code) {
  std::map<std::string, std::size_t> counts;
  std::size_t worse = 0;
  for (const PointChange& point : comparison.points) {
    ++counts[point.time ? to_string(point.time->verdict) : "without a time"];
    if (std::ranges::any_of(point.values, [](const ValueChange& value) {
          return value.verdict == ValueVerdict::worse;
        })) {
      ++worse;
    }
  }
  std::string text = count_of(comparison.points.size(), "point") + " on both sides";
  for (const auto& [verdict, count] : counts) text += fmt::format(", {} {}", count, verdict);
  const Pairing& pairing = comparison.pairing;
  text += fmt::format("; {} missing, {} extra, {} there twice.", pairing.missing.size(),
                      pairing.extra.size(), pairing.duplicates.size());
  if (worse > 0)
    text += fmt::format(" {} with another value that is worse.", count_of(worse, "point"));
  text += thresholds_of(comparison);
  return wrap(text) + fmt::format("Verdict: {} (exit code {}).\n", verdict_of(code, options), code);
}

std::string text_of(const Comparison& comparison, const CompareOptions& options, TableFormat format,
                    int code) {
  std::string text;
  for (const std::string& difference : comparison.differences) {
    text += wrap("Advisory: " + difference + ".");
  }
  for (const std::string& note : comparison.notes) text += wrap("Note: " + note + ".");
  if (!text.empty()) text += "\n";
  if (!comparison.failed.empty()) {
    std::vector<Unpaired> failed;
    for (const std::string& key : comparison.failed) failed.push_back({key, "failed"});
    text += list_of("Wrong results on the new side", failed, format);
  }
  text += texts_of(comparison, format, "not compared",
                   [](const PointChange& point) { return point.trouble; });
  text += times_of(comparison, format);
  text += values_of(comparison, format);
  text += texts_of(comparison, format, "chose another config",
                   [](const PointChange& point) { return point.config; });
  const Pairing& pairing = comparison.pairing;
  text += list_of("Missing, only the base has them", pairing.missing, format);
  text += list_of("Extra, the base has them not", pairing.extra, format);
  text += list_of("There twice on one side, and not compared", pairing.duplicates, format);
  return text + summary_of(comparison, options, code);
}

using Json = nlohmann::ordered_json;

Json to_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json to_json(const PointChange& point) {
  Json json = {{"key", point.key},           {"config", point.config}, {"trouble", point.trouble},
               {"measured", point.measured}, {"time", nullptr},        {"values", Json::array()}};
  if (point.time) {
    const TimeChange& time = *point.time;
    json["time"] = {{"verdict", to_string(time.verdict)},
                    {"reason", time.reason},
                    {"base_s", time.base_s},
                    {"new_s", time.now_s},
                    {"ratio", time.ratio},
                    {"ratio_ci95", {time.ratio95.low, time.ratio95.high}},
                    {"threshold", time.threshold},
                    {"p_adjusted", time.p},
                    {"cycles_ratio", to_json(time.cycles_ratio)}};
  }
  for (const ValueChange& value : point.values) {
    json["values"].push_back({{"judged", to_string(value.judged)},
                              {"what", value.what},
                              {"base", to_json(value.base)},
                              {"new", to_json(value.now)},
                              {"verdict", to_string(value.verdict)}});
  }
  return json;
}

Json to_json(const std::vector<Unpaired>& points) {
  Json json = Json::array();
  for (const auto& [key, status] : points) json.push_back({{"key", key}, {"status", status}});
  return json;
}

std::string json_of(const Comparison& comparison, const CompareOptions& options, int code) {
  Json json = {{"schema", "attnlab.comparison/1"},
               {"verdict", verdict_of(code, options)},
               {"exit_code", code},
               {"threshold", options.threshold},
               {"failed", comparison.failed},
               {"differences", comparison.differences},
               {"notes", comparison.notes},
               {"missing", to_json(comparison.pairing.missing)},
               {"extra", to_json(comparison.pairing.extra)},
               {"duplicates", to_json(comparison.pairing.duplicates)},
               {"points", Json::array()}};
  for (const PointChange& point : comparison.points) json["points"].push_back(to_json(point));
  return json.dump(1) + "\n";
}

std::string csv_of(const Comparison& comparison) {
  constexpr const char* kNumbers[] = {"base_s",       "new_s",      "ratio",       "ratio_ci95/0",
                                      "ratio_ci95/1", "p_adjusted", "cycles_ratio"};
  TextTable table;
  for (const char* title : {"key", "verdict", "reason", "base_s", "new_s", "ratio", "ratio_low",
                            "ratio_high", "p_adjusted", "cycles_ratio", "values"}) {
    table.columns.push_back({.title = title});
  }
  const auto add = [&](const std::string& key, const std::string& verdict,
                       const std::string& reason) -> std::vector<TextCell>& {
    table.rows.push_back({{key}, {verdict}, {reason}});
    table.rows.back().resize(table.columns.size());
    return table.rows.back();
  };
  for (const PointChange& point : comparison.points) {
    std::vector<TextCell>& row =
        point.time ? add(point.key, to_string(point.time->verdict), point.time->reason)
                   : add(point.key, point.compared ? "not timed" : "not compared", point.trouble);
    const Json time = to_json(point)["time"];
    for (std::size_t i = 0; point.time && i < std::size(kNumbers); ++i) {
      row[3 + i] = {exact(time.at(Json::json_pointer(std::string("/") + kNumbers[i])))};
    }
    std::vector<std::string> values;
    for (const ValueChange& value : point.values) values.push_back(text_of(value));
    row.back() = {fmt::format("{}", fmt::join(values, "; "))};
  }
  for (const auto& [key, status] : comparison.pairing.missing) add(key, "missing", status);
  for (const auto& [key, status] : comparison.pairing.extra) add(key, "extra", status);
  for (const auto& [key, status] : comparison.pairing.duplicates) add(key, "there twice", status);
  return render_csv(table);
}

}  // namespace

// Says "same or faster" of code 0 only where --fail-on asked about everything.
std::string verdict_of(int code, const CompareOptions& options) {
  switch (code) {
    case kExitGood: break;
    case kExitVerificationFailed: return "verification failed";
    case kExitEnvironment: return "not measured";
    case kExitSlower: return "worse";
    default: return options.across ? "advisory, by --across" : "ambiguous";
  }
  if (options.fail_on == all_judged()) return "same or faster";
  std::vector<std::string> words;
  for (const Judged judged : options.fail_on) words.emplace_back(to_string(judged));
  return fmt::format("same or better in {}", fmt::join(words, ", "));
}

std::string render_comparison(const Comparison& comparison, const CompareOptions& options,
                              TableFormat format, int code) {
  switch (format) {
    case TableFormat::csv: return csv_of(comparison);
    case TableFormat::json: return json_of(comparison, options, code);
    case TableFormat::table:
    case TableFormat::markdown: break;
  }
  return text_of(comparison, options, format, code);
}

std::string render_comparison(const Comparison& comparison, const CompareOptions& options,
                              TableFormat format) {
  return render_comparison(comparison, options, format, exit_code(comparison, options));
}

}  // namespace attnlab
