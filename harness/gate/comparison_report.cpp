#include "harness/gate/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/errors.h"
#include "harness/report/fields.h"
#include "harness/report/pivot.h"

namespace attnlab {
namespace {

// The fields that tell the points apart: axes and kernels that vary, and tiles where these do not.
std::vector<const Field*> telling_fields(const std::vector<PointChange>& points) {
  std::vector<RecordJson> records;
  for (const PointChange& point : points) records.push_back(*point.record);
  std::vector<const Field*> telling;
  for (const Field* field : problem_axes(records)) {
    if (!is_constant(*field, records)) telling.push_back(field);
  }
  telling.push_back(&find_field("kernel", ""));
  std::set<std::string> labels;
  for (const RecordJson& record : records) {
    std::string label;
    for (const Field* field : telling) label += exact(field->read(record)) + " ";
    labels.insert(label);
  }
  if (labels.size() < records.size()) telling.push_back(&find_field("block", ""));
  return telling;
}

// A table whose first columns tell points apart.
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
  bool empty() const { return table_.rows.empty(); }
  std::string text(TableFormat format) const {
    return format == TableFormat::markdown ? render_markdown(table_) : render_plain(table_);
  }

 private:
  std::vector<const Field*> fields_;
  TextTable table_;
};

std::string percent(double ratio) { return fmt::format("{:+.2f} %", 100.0 * (ratio - 1.0)); }

std::string milliseconds(double seconds) { return fmt::format("{:.4g}", 1e3 * seconds); }

std::string times_of(const Comparison& comparison, TableFormat format, Footnotes& footnotes) {
  PointTable table(comparison.points);
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
  return table.empty() ? "" : table.text(format) + "\n";
}

std::string values_of(const Comparison& comparison, TableFormat format) {
  PointTable table(comparison.points);
  table.column("another value", true);
  for (const PointChange& point : comparison.points) {
    for (const ValueChange& value : point.values) {
      table.row(point, {fmt::format("{}: {:.6g} -> {:.6g}, {}", value.what, value.base, value.now,
                                    value.worse ? "worse" : "less")});
    }
  }
  return table.empty() ? "" : table.text(format) + "\n";
}

std::string troubles_of(const Comparison& comparison, TableFormat format) {
  PointTable table(comparison.points);
  table.column("not compared", true);
  for (const PointChange& point : comparison.points) {
    if (!point.trouble.empty()) table.row(point, {point.trouble});
  }
  return table.empty() ? "" : table.text(format) + "\n";
}

std::string configs_of(const Comparison& comparison, TableFormat format) {
  PointTable table(comparison.points);
  table.column("chose another config", true);
  for (const PointChange& point : comparison.points) {
    if (!point.config.empty()) table.row(point, {point.config});
  }
  return table.empty() ? "" : table.text(format) + "\n";
}

std::string list_of(const char* title, const std::vector<std::string>& keys) {
  if (keys.empty()) return "";
  std::string text = fmt::format("{}:\n", title);
  for (const std::string& key : keys) text += fmt::format("  {}\n", key);
  return text + "\n";
}

std::map<std::string, std::size_t> counts_of(const Comparison& comparison) {
  std::map<std::string, std::size_t> counts;
  for (const PointChange& point : comparison.points) {
    ++counts[point.time ? to_string(point.time->verdict) : "without a time"];
  }
  return counts;
}

std::string summary_of(const Comparison& comparison, const CompareOptions& options) {
  std::string text = count_of(comparison.points.size(), "point") + " on both sides";
  for (const auto& [verdict, count] : counts_of(comparison)) {
    text += fmt::format(", {} {}", count, verdict);
  }
  text += fmt::format("; {} missing, {} extra, {} there twice.", comparison.missing.size(),
                      comparison.extra.size(), comparison.duplicates.size());
  const auto worse = std::ranges::count_if(comparison.points, [](const PointChange& point) {
    return std::ranges::any_of(point.values, [](const ValueChange& value) { return value.worse; });
  });
  if (worse > 0) {
    text += fmt::format(" {} with another value that is worse.",
                        count_of(static_cast<std::size_t>(worse), "point"));
  }
  text += fmt::format(" A change of time below {:.3g} % is none.", 100.0 * comparison.threshold);
  const int code = exit_code(comparison, options);
  return wrap(text) + fmt::format("Verdict: {} (exit code {}).\n", verdict_word(code), code);
}

std::string text_of(const Comparison& comparison, const CompareOptions& options,
                    TableFormat format) {
  Footnotes footnotes;
  std::string text;
  for (const std::string& difference : comparison.differences) {
    text += wrap("Advisory: " + difference + ".");
  }
  if (!text.empty()) text += "\n";
  text += troubles_of(comparison, format);
  const std::string times = times_of(comparison, format, footnotes);
  text += times;
  if (const std::string notes = footnotes.text(); !notes.empty()) text += notes + "\n";
  text += values_of(comparison, format);
  text += configs_of(comparison, format);
  text += list_of("Missing, that only the base has", comparison.missing);
  text += list_of("Extra, that the base has not", comparison.extra);
  text += list_of("There twice on one side, and not compared", comparison.duplicates);
  return text + summary_of(comparison, options);
}

using Json = nlohmann::ordered_json;

Json to_json(const PointChange& point) {
  Json json = {{"key", point.key},       {"config", point.config},     {"trouble", point.trouble},
               {"failed", point.failed}, {"measured", point.measured}, {"time", nullptr},
               {"values", Json::array()}};
  if (point.time) {
    const TimeChange& time = *point.time;
    json["time"] = {{"verdict", to_string(time.verdict)},
                    {"reason", time.reason},
                    {"base_s", time.base_s},
                    {"new_s", time.now_s},
                    {"ratio", time.ratio},
                    {"ratio_ci95", {time.ratio95.low, time.ratio95.high}},
                    {"p_adjusted", time.p},
                    {"cycles_ratio", time.cycles_ratio ? Json(*time.cycles_ratio) : Json()}};
  }
  for (const ValueChange& value : point.values) {
    json["values"].push_back({{"judged", to_string(value.judged)},
                              {"what", value.what},
                              {"base", value.base},
                              {"new", value.now},
                              {"worse", value.worse}});
  }
  return json;
}

std::string json_of(const Comparison& comparison, const CompareOptions& options) {
  const int code = exit_code(comparison, options);
  Json json = {{"schema", "attnlab.comparison/1"},
               {"verdict", verdict_word(code)},
               {"exit_code", code},
               {"threshold", comparison.threshold},
               {"differences", comparison.differences},
               {"missing", comparison.missing},
               {"extra", comparison.extra},
               {"duplicates", comparison.duplicates},
               {"points", Json::array()}};
  for (const PointChange& point : comparison.points) json["points"].push_back(to_json(point));
  return json.dump(1) + "\n";
}

std::string csv_of(const Comparison& comparison) {
  TextTable table;
  for (const char* title : {"key", "verdict", "base_s", "new_s", "ratio", "ratio_low", "ratio_high",
                            "p_adjusted", "cycles_ratio", "worse_values"}) {
    table.columns.push_back({.title = title});
  }
  for (const PointChange& point : comparison.points) {
    const Json json = to_json(point);
    std::string worse;
    for (const ValueChange& value : point.values) {
      if (value.worse) worse += (worse.empty() ? "" : "; ") + value.what;
    }
    std::vector<TextCell> row = {{point.key}};
    row.push_back({point.time ? to_string(point.time->verdict) : point.trouble});
    for (const char* name : {"/time/base_s", "/time/new_s", "/time/ratio", "/time/ratio_ci95/0",
                             "/time/ratio_ci95/1", "/time/p_adjusted", "/time/cycles_ratio"}) {
      row.push_back({point.time ? exact(json.at(Json::json_pointer(name))) : ""});
    }
    row.push_back({worse});
    table.rows.push_back(std::move(row));
  }
  return render_csv(table);
}

}  // namespace

const char* verdict_word(int code) {
  switch (code) {
    case kExitGood: return "same or faster";
    case kExitVerificationFailed: return "verification failed";
    case kExitEnvironment: return "not measured";
    case kExitSlower: return "worse";
    case kExitAmbiguous: return "ambiguous";
    default: return "";
  }
}

std::string render_comparison(const Comparison& comparison, const CompareOptions& options,
                              TableFormat format) {
  switch (format) {
    case TableFormat::csv: return csv_of(comparison);
    case TableFormat::json: return json_of(comparison, options);
    case TableFormat::table:
    case TableFormat::markdown: break;
  }
  return text_of(comparison, options, format);
}

}  // namespace attnlab
