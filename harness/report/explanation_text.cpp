// Writes an explanation as a screenful of text.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/report/explanation.h"

namespace attnlab {
namespace {

constexpr double kMib = 0x1p20, kKib = 0x1p10, kGiga = 1e9, kMega = 1e6, kMs = 1e-3;

std::string rounded(double value) {
  if (value >= 1000.0) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

std::string cell(const std::optional<double>& value, double unit = 1.0) {
  return value ? rounded(*value / unit) : "-";
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100.0 * *share) : "-";
}

std::string share_of_time(const LimiterShare& finding) {
  if (!finding.share) return "";
  return fmt::format(", {} % of the time", percent(finding.share));
}

std::string binding(const LimiterShare& finding) {
  return fmt::format("{}, {}{}.", to_string(finding.limiter), finding.number,
                     share_of_time(finding));
}

TextTable limiter_table(const Explanation& explanation) {
  TextTable table{.columns = {{"", "limiter", true},
                              {"", "% time", false},
                              {"", "number", true},
                              {"", "from", true}},
                  .rows = {}};
  for (const LimiterShare& finding : explanation.findings) {
    if (!finding.reason.empty()) continue;
    table.rows.push_back({{to_string(finding.limiter)},
                          {.text = percent(finding.share), .mark = finding.binds() ? '*' : ' '},
                          {finding.number},
                          {finding.source}});
  }
  return table;
}

// Says "Not measured: L2 (its rate is not known), ...", those of one reason together.
std::string missing_text(const Explanation& explanation) {
  std::vector<std::pair<std::string, std::string>> groups;  // reason, limiters
  for (const LimiterShare& finding : explanation.findings) {
    if (finding.reason.empty()) continue;
    auto group =
        std::ranges::find(groups, finding.reason, &std::pair<std::string, std::string>::first);
    if (group == groups.end()) {
      groups.emplace_back(finding.reason, to_string(finding.limiter));
    } else {
      group->second += fmt::format(", {}", to_string(finding.limiter));
    }
  }
  std::string text;
  for (const auto& [reason, limiters] : groups) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", limiters, reason);
  }
  return text.empty() ? "" : wrap(fmt::format("Not measured: {}.", text), 2);
}

std::string flops_line(const Counts& counts) {
  if (!counts.executed_flops || !counts.useful_flops) return "";
  return fmt::format("FLOPs: {} GFLOP executed, {:.3f} of the useful ones.",
                     rounded(*counts.executed_flops / kGiga),
                     *counts.executed_flops / *counts.useful_flops);
}

std::string bytes_line(const Counts& counts) {
  if (!counts.compulsory_bytes) return "";
  return fmt::format("MiB: {} compulsory, {} requested; counted {} at the L2, {} at the dram.",
                     cell(counts.compulsory_bytes, kMib), cell(counts.requested_bytes, kMib),
                     cell(counts.l2_bytes, kMib), cell(counts.dram_bytes, kMib));
}

std::string clock_line(const Counts& counts) {
  if (!counts.counted_clock_hz) return "";
  return fmt::format("Clock: {:.0f} MHz while the hardware counted.",
                     *counts.counted_clock_hz / kMega);
}

std::string tiles_line(const Counts& counts) {
  const double all = counts.full_tiles.value_or(0.0) + counts.partial_tiles.value_or(0.0) +
                     counts.empty_tiles.value_or(0.0);
  if (!(all > 0.0)) return "";
  return fmt::format("Tiles: {} full, {} partial, {} skipped.", cell(counts.full_tiles),
                     cell(counts.partial_tiles), cell(counts.empty_tiles));
}

std::string grid_line(const Explanation& explanation) {
  const Waves& waves = explanation.waves;
  if (!waves.items) return "";
  const std::string in_waves = waves.places
                                   ? fmt::format(", {:.2f} waves of {:.0f} blocks",
                                                 *waves.items / *waves.places, *waves.places)
                                   : "";
  return fmt::format(
      "Grid: {}{}.",
      count_of(static_cast<std::size_t>(*waves.items), waves.seen ? "work item" : "row tile"),
      in_waves);
}

std::string block_line(const Counts& counts) {
  if (!counts.threads || !counts.registers) return "";
  return fmt::format("Block: {} threads of {} registers, {} KiB shared, {} a multiprocessor.",
                     cell(counts.threads), cell(counts.registers), cell(counts.shared_bytes, kKib),
                     cell(counts.blocks_per_multiprocessor));
}

std::string counts_text(const Explanation& explanation) {
  const Counts& counts = explanation.counts;
  std::string text;
  for (const std::string& line : {flops_line(counts), bytes_line(counts), clock_line(counts),
                                  tiles_line(counts), grid_line(explanation), block_line(counts)}) {
    if (!line.empty()) text += wrap(line, 2);
  }
  return text;
}

TextTable tile_table(const TileFacts& tiles) {
  TextTable table{.columns = {{"", "tile", true},
                              {"", "items", false},
                              {"", "MiB", false},
                              {"", "GFLOP", false},
                              {"", "shared KiB", false},
                              {"", "registers", false},
                              {"", "ms", false}},
                  .rows = {}};
  const auto add = [&](const TileFact& tile) {
    if (!tile.reason.empty()) return;
    table.rows.push_back({{tile.change},
                          {cell(tile.items)},
                          {cell(tile.bytes, kMib)},
                          {cell(tile.flops, kGiga)},
                          {cell(tile.shared_bytes, kKib)},
                          {cell(tile.registers)},
                          {cell(tile.median_s, kMs)}});
  };
  add(tiles.own);
  for (const TileFact& tile : tiles.neighbours) add(tile);
  return table;
}

// Returns the first sentence of a reason, so that a screen holds it.
std::string first_clause(const std::string& reason) {
  return reason.substr(0, reason.find_first_of(";\n"));
}

// Warns of another version of the kernel: it counts otherwise, and neighbours are this program's.
std::string version_text(const Explanation& explanation) {
  const TileFact& own = explanation.tiles.own;
  const auto differ = [](const std::optional<double>& a, const std::optional<double>& b) {
    return a && b && *a != *b;
  };
  if (!differ(own.flops, explanation.counts.executed_flops) &&
      !differ(own.bytes, explanation.counts.requested_bytes)) {
    return "";
  }
  return wrap("Another version of the kernel was measured: tiles are those of this program.", 2);
}

std::string tiles_text(const TileFacts& tiles) {
  if (!tiles.reason.empty()) {
    return wrap(fmt::format("Neighbouring tiles: {}.", first_clause(tiles.reason)), 2);
  }
  if (tiles.neighbours.empty()) return "This kernel has no tile to choose.\n";
  std::string text = render_plain(tile_table(tiles));
  for (const TileFact& tile : tiles.neighbours) {
    if (tile.reason.empty()) continue;
    text += wrap(fmt::format("{}: {}.", tile.change, first_clause(tile.reason)), 2);
  }
  return text;
}

std::string time_text(const Explanation& explanation) {
  if (explanation.status != "ok") {
    return wrap(fmt::format("{}: {}", explanation.status, first_clause(explanation.reason)), 2);
  }
  if (!explanation.seconds) return "Nothing was measured, and no bound is known.\n";
  const std::string ms = rounded(*explanation.seconds / kMs);
  if (explanation.is_measured) return fmt::format("Measured: {} ms.\n", ms);
  return wrap(
      fmt::format("Nothing was measured. On paper: {} ms at the least; shares are of that.", ms),
      2);
}

// Breaks a command into lines as a shell takes them.
std::string command_text(const std::string& command) {
  if (command.empty()) return "";
  constexpr std::size_t kEnd = 2;  // columns of " \\"
  std::string text = wrap(fmt::format("  {}", command), 4, prose_width() - kEnd);
  std::size_t end = 0;
  while ((end = text.find('\n', end)) + 1 < text.size()) {
    text.insert(end, " \\");
    end += kEnd + 1;
  }
  return text;
}

std::string next_text(const std::optional<Advice>& next) {
  if (!next) return "Next: no number speaks for anything.\n";
  std::string text = wrap(fmt::format("Next: {}", next->sentence), 2);
  return text + command_text(next->command);
}

// Puts blanks behind the commas of a config, so that a line of it can break.
std::string breakable(const std::string& config) {
  std::string text;
  for (const char c : config) {
    text += c;
    if (c == ',') text += ' ';
  }
  return text;
}

std::string screen(const Explanation& explanation) {
  std::string text = wrap(explanation.id, 2);
  const std::string config = breakable(explanation.config);
  text += wrap(fmt::format("{}{} on {}; {}", explanation.kernel, config.empty() ? "" : " " + config,
                           explanation.device, explanation.state),
               2);
  text += time_text(explanation);
  if (explanation.status != "ok") return text;
  text += wrap(headline(explanation), 2);
  const TextTable limiters = limiter_table(explanation);
  text += "\n" + (limiters.rows.empty() ? "" : render_plain(limiters)) + missing_text(explanation);
  text += "\n" + counts_text(explanation);
  text += "\n" + tiles_text(explanation.tiles) + version_text(explanation);
  return text + "\n" + next_text(explanation.next);
}

std::string render(const TextTable& table, TableFormat format) {
  if (format == TableFormat::csv) return render_csv(table);
  return format == TableFormat::markdown ? render_markdown(table) : render_plain(table);
}

}  // namespace

std::string headline(const Explanation& explanation) {
  const LimiterShare* const first = explanation.limiter();
  if (first == nullptr) {
    const bool has_share = !explanation.findings.empty() && explanation.findings.front().share;
    if (!has_share) return "Nothing is known to bind it.";
    const LimiterShare& nearest = explanation.findings.front();
    return fmt::format("Nothing binds it: the largest share is that of {}, {} %.",
                       to_string(nearest.limiter), percent(nearest.share));
  }
  if (first->limiter == Limiter::unsettled) {
    const std::string next =
        explanation.findings.size() > 1 && explanation.findings[1].binds()
            ? fmt::format(" If it stands: {}", binding(explanation.findings[1]))
            : "";
    return fmt::format("The time did not settle, {}: nothing should rest on it.{}", first->number,
                       next);
  }
  return fmt::format("What binds it: {}", binding(*first));
}

std::string render_explanation(const Explanation& explanation, TableFormat format) {
  if (format == TableFormat::json) return to_json(explanation).dump(1) + "\n";
  if (format == TableFormat::table) return screen(explanation);
  return render(limiter_table(explanation), format);
}

std::string render_explanations(const std::vector<Explanation>& explanations, TableFormat format) {
  if (format == TableFormat::json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Explanation& one : explanations) all.push_back(to_json(one));
    return all.dump(1) + "\n";
  }
  TextTable table{.columns = {{"", "#", false, true},
                              {"", "point", true},
                              {"", "kernel", true},
                              {"", "ms", false},
                              {"", "what binds it", true},
                              {"", "% of time", false}},
                  .rows = {}};
  for (const Explanation& one : explanations) {
    const LimiterShare* const first = one.limiter();
    const bool known = one.status == "ok";
    table.rows.push_back({{fmt::format("{}", table.rows.size() + 1)},
                          {one.id},
                          {one.kernel},
                          {one.is_measured ? cell(one.seconds, kMs) : "-"},
                          {first != nullptr ? to_string(first->limiter)
                           : known          ? "nothing"
                                            : one.status},
                          {first != nullptr ? percent(first->share) : "-"}});
  }
  return render(table, format);
}

}  // namespace attnlab
