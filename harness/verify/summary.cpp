#include "harness/verify/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/text_table.h"

namespace attnlab::verify {

namespace {

using Counts = std::array<std::size_t, 3>;  // by Outcome

struct Row {
  std::string kernel;
  std::map<Part, Counts> parts;
  double seconds = 0.0;
};

// Counts the results by kernel, in the order in which the kernels come.
std::vector<Row> count(const std::vector<Result>& results) {
  std::vector<Row> rows;
  for (const Result& result : results) {
    auto row = std::ranges::find(rows, result.kernel, &Row::kernel);
    if (row == rows.end()) row = rows.insert(row, Row{.kernel = result.kernel});
    ++row->parts[result.part][static_cast<std::size_t>(result.outcome)];
    row->seconds += result.seconds;
  }
  return rows;
}

TextTable make_table(const std::vector<Result>& results) {
  const std::vector<Row> rows = count(results);
  TextTable table;
  table.columns.push_back({.group = "", .title = "kernel", .left = true});
  std::vector<Part> parts;
  for (const Part part : kAllParts) {
    if (std::ranges::none_of(rows, [&](const Row& row) { return row.parts.contains(part); })) {
      continue;
    }
    parts.push_back(part);
    for (const char* title : {"pass", "fail", "skip"}) {
      table.columns.push_back({.group = to_string(part), .title = title});
    }
  }
  table.columns.push_back({.group = "", .title = "time_s"});
  for (const Row& row : rows) {
    std::vector<TextCell>& cells = table.rows.emplace_back();
    cells.push_back({row.kernel});
    for (const Part part : parts) {
      const auto found = row.parts.find(part);
      const Counts counts = found == row.parts.end() ? Counts{} : found->second;
      for (const std::size_t number : counts) cells.push_back({std::to_string(number)});
    }
    cells.push_back({fmt::format("{:.1f}", row.seconds)});
  }
  return table;
}

// Returns whether a random problem is of e4m3, which its name alone says.
bool is_e4m3(const Result& result) { return result.name.find("/e4m3/") != std::string::npos; }

nlohmann::ordered_json to_json(const Result& result) {
  nlohmann::ordered_json json = {{"name", result.name},
                                 {"kernel", result.kernel},
                                 {"backend", to_string(result.backend)},
                                 {"part", to_string(result.part)},
                                 {"outcome", to_string(result.outcome)},
                                 {"seconds", result.seconds}};
  if (result.outcome == Outcome::skipped) json["reason"] = result.message;
  if (result.outcome == Outcome::failed) {
    json["check"] = result.check;
    json["message"] = result.message;
    json["repro"] = result.repro;
  }
  return json;
}

}  // namespace

std::string render_summary(const std::vector<Result>& results, TableFormat format) {
  switch (format) {
    case TableFormat::markdown: return render_markdown(make_table(results));
    case TableFormat::csv: return render_csv(make_table(results));
    case TableFormat::json: {
      auto all = nlohmann::ordered_json::array();
      for (const Result& result : results) all.push_back(to_json(result));
      return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
    case TableFormat::table: break;
  }
  return render_plain(make_table(results));
}

std::string render_random(const std::vector<Result>& results) {
  constexpr Pass kPasses[] = {Pass::fwd, Pass::bwd, Pass::fwdbwd};
  TextTable table{.columns = {{"", "kernel", true}}, .rows = {}};
  for (const Pass pass : kPasses) table.columns.push_back({.title = to_string(pass)});
  table.columns.push_back({.title = "e4m3"});
  for (const Row& row : count(results)) {
    if (!row.parts.contains(Part::random)) continue;
    std::vector<TextCell>& cells = table.rows.emplace_back();
    cells.push_back({row.kernel});
    const auto add_count = [&](bool e4m3, const auto& has_pass) {
      cells.push_back({std::to_string(std::ranges::count_if(results, [&](const Result& result) {
        return result.kernel == row.kernel && result.part == Part::random && result.pass &&
               has_pass(*result.pass) && is_e4m3(result) == e4m3;
      }))});
    };
    for (const Pass pass : kPasses) add_count(false, [&](Pass of) { return of == pass; });
    add_count(true, [](Pass) { return true; });
  }
  return table.rows.empty()
             ? ""
             : "Random problems judged, by pass, and forward of e4m3:\n" + render_plain(table);
}

std::string render_skipped(const std::vector<Result>& results) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  for (const Result& result : results) {
    if (result.outcome != Outcome::skipped) continue;
    const std::string text = fmt::format("{}: {}", result.kernel, result.message);
    auto same = std::ranges::find(reasons, text, &std::pair<std::string, std::size_t>::first);
    if (same == reasons.end()) same = reasons.insert(same, {text, 0});
    ++same->second;
  }
  std::string lines = reasons.empty() ? "" : "Skipped, with the number of checks:\n";
  for (const auto& [text, number] : reasons) lines += wrap(fmt::format("{:6} {}", number, text), 7);
  return lines;
}

std::string render_failures(const std::vector<Result>& results, std::size_t most) {
  std::string text;
  std::size_t shown = 0, left = 0;
  for (const Result& result : results) {
    if (result.outcome != Outcome::failed) continue;
    if (shown == most) {
      ++left;
      continue;
    }
    ++shown;
    text += fmt::format("\nFAILED {}\n  caught by {}\n", result.name, result.check);
    text += wrap("  " + result.message, 2);
    text += fmt::format("  {}\n", result.repro);
  }
  if (left > 0) text += fmt::format("\n... and {} more\n", left);
  return text;
}

}  // namespace attnlab::verify
