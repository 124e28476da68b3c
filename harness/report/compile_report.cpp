#include "harness/report/compile_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Returns the entries, or one without a name: a unit that failed has its line, too.
std::vector<CompiledEntry> rows_of(const Compilation& compilation) {
  if (compilation.entries.empty()) return {CompiledEntry{}};
  return compilation.entries;
}

std::string or_dash(bool is_known, const std::string& text) { return is_known ? text : "-"; }

std::string spills(const CompiledEntry& entry) {
  const std::int64_t bytes = entry.spill_store_bytes + entry.spill_load_bytes;
  return bytes == 0 ? "0" : fmt::format("{} B", bytes);
}

std::string state(const Compilation& compilation) {
  if (!compilation.error.empty()) return "failed";
  return compilation.from_cache ? "cached" : fmt::format("{:.2f}", compilation.seconds);
}

TextTable make_table(const std::vector<Compilation>& compilations) {
  TextTable table{.columns = {{"", "unit", true},
                              {"", "kernel", true, true},
                              {"", "arch", true, true},
                              {"", "registers", false},
                              {"", "spills", false},
                              {"shared bytes", "static", false},
                              {"shared bytes", "dynamic", false},
                              {"occupancy", "blocks", false},
                              {"occupancy", "%", false},
                              {"", "s", false}},
                  .rows = {}};
  for (const Compilation& compilation : compilations) {
    bool is_first = true;
    for (const CompiledEntry& row : rows_of(compilation)) {
      const bool is_known = !row.entry.name.empty();
      const bool fits = row.blocks_per_multiprocessor > 0;
      table.rows.push_back(
          {{compilation.unit},
           {or_dash(is_known, row.entry.name)},
           {compilation.arch},
           {or_dash(is_known, fmt::format("{}", row.registers))},
           {or_dash(is_known, spills(row))},
           {or_dash(is_known, fmt::format("{}", row.static_shared_bytes))},
           {or_dash(is_known, fmt::format("{}", row.entry.dynamic_shared_bytes))},
           {or_dash(is_known && fits, fmt::format("{}", row.blocks_per_multiprocessor))},
           {or_dash(is_known && fits, fmt::format("{:.0f}", 100.0 * row.occupancy))},
           {is_first ? state(compilation) : ""}});
      is_first = false;
    }
  }
  return table;
}

Json make_json(const std::vector<Compilation>& compilations) {
  Json rows = Json::array();
  for (const Compilation& compilation : compilations) {
    for (const CompiledEntry& row : rows_of(compilation)) {
      rows.push_back({{"unit", compilation.unit},
                      {"kernel", row.entry.name},
                      {"arch", compilation.arch},
                      {"registers", row.registers},
                      {"spill_store_bytes", row.spill_store_bytes},
                      {"spill_load_bytes", row.spill_load_bytes},
                      {"stack_bytes", row.stack_bytes},
                      {"static_shared_bytes", row.static_shared_bytes},
                      {"dynamic_shared_bytes", row.entry.dynamic_shared_bytes},
                      {"threads_per_block", row.entry.threads},
                      {"blocks_per_multiprocessor", row.blocks_per_multiprocessor},
                      {"occupancy", row.occupancy},
                      {"compile_s", compilation.seconds},
                      {"from_cache", compilation.from_cache},
                      {"compiler", compilation.compiler},
                      {"text_sha256", compilation.text_sha256},
                      {"advisories", compilation.advisories},
                      {"error", compilation.error}});
    }
  }
  return rows;
}

std::string make_csv(const Json& rows) {
  TextTable table;
  if (rows.empty()) return "";
  for (const auto& [name, value] : rows[0].items()) table.columns.push_back({.title = name});
  for (const Json& row : rows) {
    table.rows.emplace_back();
    for (const auto& [name, value] : row.items()) {
      std::string text = value.dump();
      if (value.is_string()) text = value.get<std::string>();
      if (value.is_array()) {
        text = fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), "; "));
      }
      table.rows.back().push_back({text});
    }
  }
  return render_csv(table);
}

std::string remarks(const std::vector<Compilation>& compilations) {
  std::string text;
  for (const Compilation& compilation : compilations) {
    const std::string head = fmt::format("{} for {}", compilation.unit, compilation.arch);
    for (const std::string& advisory : compilation.advisories) {
      text += wrap(fmt::format("{}: {}", head, advisory), 4);
    }
    if (compilation.error.empty()) continue;
    text += fmt::format("\n{} failed:\n{}", head, compilation.error);
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

}  // namespace

std::string render_compilations(const std::vector<Compilation>& compilations, TableFormat format) {
  if (format == TableFormat::json) return make_json(compilations).dump(1) + "\n";
  if (format == TableFormat::csv) return make_csv(make_json(compilations));
  if (compilations.empty()) return "";
  const TextTable table = make_table(compilations);
  const std::string text =
      (format == TableFormat::markdown ? render_markdown(table) : render_plain(table));
  const std::string more = remarks(compilations);
  return text + (more.empty() ? "" : "\n" + more) + "\n";
}

std::string summarize(const std::vector<Compilation>& compilations, double elapsed_s) {
  std::size_t kernels = 0;
  std::size_t compiled = 0;
  std::size_t cached = 0;
  std::size_t failed = 0;
  double seconds = 0.0;
  std::string compiler;
  for (const Compilation& compilation : compilations) {
    kernels += compilation.entries.size();
    if (!compilation.compiler.empty()) compiler = compilation.compiler;
    if (!compilation.error.empty()) {
      ++failed;
    } else if (compilation.from_cache) {
      ++cached;
    } else {
      ++compiled;
      seconds += compilation.seconds;
    }
  }
  return wrap(fmt::format(
      "{}, {}: {} compiled in {:.1f} s ({:.1f} s of waiting), {} from the cache, {} failed.{}",
      count_of(compilations.size(), "unit"), count_of(kernels, "kernel"), compiled, seconds,
      elapsed_s, cached, failed, compiler.empty() ? "" : " " + compiler + "."));
}

}  // namespace attnlab
