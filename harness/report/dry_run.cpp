// Implements attnlab run --dry-run, which says what a sweep would do.
#include "harness/report/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/plan/accounting.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/turns_memory.h"

namespace attnlab {
namespace {

struct PlannedPoint {
  const Case* work;
  const Competitor* competitor;
  std::string status;  // "runs", "unsupported" or "skipped"
  std::string reason;
  std::uint64_t memory_bytes = 0;  // what it would take; 0 if it does not run, and of a peer
};

std::vector<PlannedPoint> plan(const std::vector<Case>& cases, const Device& device) {
  std::vector<PlannedPoint> points;
  for (const Case& work : cases) {
    for (const Competitor& competitor : work.competitors) {
      PlannedPoint point{.work = &work, .competitor = &competitor, .status = "runs"};
      if (!competitor.skipped.empty()) {
        point.status = "skipped";
        point.reason = competitor.skipped;
      } else if (!competitor.unsupported.empty()) {
        point.status = "unsupported";
        point.reason = competitor.unsupported;
      } else {
        if (competitor.implementation != nullptr) {  // a peer does not say
          point.memory_bytes = most_bytes_timed(work.problem, competitor, device);
        }
      }
      points.push_back(std::move(point));
    }
  }
  return points;
}

// Lists what differs from the kernel's defaults.
std::string deviations(const Competitor& competitor) {
  Config config;
  const Config defaults =
      competitor.implementation == nullptr ? Config() : default_config(*competitor.implementation);
  for (const auto& [name, value] : competitor.config.values()) {
    if (!defaults.contains(name) || defaults.get(name) != value) config.set(name, value);
  }
  return config.to_string();
}

std::string mib(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

TextTable make_table(const std::vector<PlannedPoint>& points, Footnotes& footnotes) {
  TextTable table{.columns = {{"", "id", true},
                              {"", "kernel", true, true},
                              {"", "config", true},
                              {"", "MiB", false},
                              {"", "", true}},
                  .rows = {}};
  for (const PlannedPoint& point : points) {
    const bool runs = point.status == "runs";
    table.rows.push_back({{point.work->problem.id()},
                          {point.competitor->kernel},
                          {deviations(*point.competitor)},
                          {runs && point.memory_bytes > 0 ? mib(point.memory_bytes) : "-"},
                          {footnotes.mark(point.status, point.reason)}});
  }
  return table;
}

TextTable make_data_table(const std::vector<PlannedPoint>& points) {
  TextTable table;
  for (const char* title : {"id", "input_kind", "seed", "kernel", "backend", "config", "status",
                            "reason", "memory_bytes"}) {
    table.columns.push_back({.title = title});
  }
  for (const PlannedPoint& point : points) {
    table.rows.push_back({{point.work->problem.id()},
                          {to_string(point.work->input_kind)},
                          {std::to_string(point.work->seed)},
                          {point.competitor->kernel},
                          {to_string(point.competitor->backend)},
                          {point.competitor->config.to_string()},
                          {point.status},
                          {point.reason},
                          {std::to_string(point.memory_bytes)}});
  }
  return table;
}

std::string to_json_text(const TextTable& table) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    nlohmann::ordered_json object;
    for (std::size_t c = 0; c < row.size(); ++c) object[table.columns[c].title] = row[c].text;
    array.push_back(std::move(object));
  }
  return array.dump(1) + "\n";
}

// Returns what the largest group of several layouts takes at once; 0 if there is none.
std::uint64_t most_bytes_of_layouts(const std::vector<Case>& cases, const Device& device) {
  std::uint64_t most = 0;
  for (const CaseGroup& group : group_layouts(cases)) {
    if (group.size() < 2) continue;
    most = std::max(most, bytes_in_turns(group, device, device.memory_bytes));
  }
  return most;
}

std::string summary(const std::vector<PlannedPoint>& points, const std::vector<Case>& cases,
                    const Device& device) {
  const PlannedPoint* largest = nullptr;
  std::size_t running = 0;
  for (const PlannedPoint& point : points) {
    if (point.status != "runs") continue;
    ++running;
    if (largest == nullptr || largest->memory_bytes < point.memory_bytes) largest = &point;
  }
  std::string text =
      fmt::format("{}, {}, of which {} can run on {}.", count_of(cases.size(), "case"),
                  count_of(points.size(), "point"), running, describe(device));
  if (largest != nullptr && largest->memory_bytes > 0) {
    text += fmt::format(" The largest needs {} MiB: {} on {}.", mib(largest->memory_bytes),
                        largest->competitor->kernel, largest->work->problem.id());
  }
  if (const std::uint64_t bytes = most_bytes_of_layouts(cases, device); bytes > 0) {
    text += fmt::format(" Layouts that take turns need {} MiB at once at the most.", mib(bytes));
  }
  return wrap(text + " Nothing was run.");
}

}  // namespace

std::string render_plan(const std::vector<Case>& cases, const Device& device, TableFormat format) {
  const std::vector<PlannedPoint> points = plan(cases, device);
  if (format == TableFormat::csv) return render_csv(make_data_table(points));
  if (format == TableFormat::json) return to_json_text(make_data_table(points));
  Footnotes footnotes;
  const TextTable table = make_table(points, footnotes);
  return (format == TableFormat::markdown ? render_markdown(table) : render_plain(table)) + "\n" +
         footnotes.text() + summary(points, cases, device);
}

}  // namespace attnlab
