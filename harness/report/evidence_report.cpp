#include "harness/report/evidence_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/text_table.h"
#include "harness/record/record.h"
#include "harness/record/record_json.h"
#include "harness/report/fields.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShapesWidth = 53;  // of the columns beside the symbol

// Returns "2x64x1" for [2, 64, 1], "-" for null.
std::string sizes(const Json& three) {
  if (!three.is_array() || three.size() != 3) return "-";
  return fmt::format("{}x{}x{}", exact(three[0]), exact(three[1]), exact(three[2]));
}

// Returns "0 + 32768", static and dynamic; for a peer, which tells their sum only, "32768".
std::string shared_bytes(const Json& kernel) {
  const Json fixed = at(kernel, {"static_shared_bytes"});
  const Json dynamic = at(kernel, {"dynamic_shared_bytes"});
  if (!fixed.is_null() && !dynamic.is_null()) {
    return fmt::format("{} + {}", exact(fixed), exact(dynamic));
  }
  const Json both = at(kernel, {"shared_bytes"});
  return both.is_null() ? "-" : exact(both);
}

// Cuts the end: names of template instances are pages long, and mostly differ in front.
std::string shortened(const std::string& symbol) {
  const std::size_t widest = std::max(page_width(), kShapesWidth + 20) - kShapesWidth;
  if (symbol.size() <= widest) return symbol;
  return symbol.substr(0, widest - 3) + "...";
}

std::string or_dash(const Json& value) { return value.is_null() ? "-" : exact(value); }

TextTable kernels_table(const Json& executed) {
  TextTable table{.columns = {{"", "  ran", true},
                              {"", "times"},
                              {"", "grid"},
                              {"", "block"},
                              {"", "regs"},
                              {"", "shared bytes"}},
                  .rows = {}};
  for (const Json& kernel : executed) {
    table.rows.push_back({{"  " + shortened(exact(at(kernel, {"symbol"})))},
                          {or_dash(at(kernel, {"launches"}))},
                          {sizes(at(kernel, {"grid"}))},
                          {sizes(at(kernel, {"block"}))},
                          {or_dash(at(kernel, {"registers"}))},
                          {shared_bytes(kernel)}});
  }
  return table;
}

// Returns "naive (cuda, tf32=0): ran as asked, verified, timed".
std::string headline(const Json& record) {
  std::string config;
  const Json values = at(record, {"config"});
  for (const auto& [name, value] : values.items()) {
    config += fmt::format(", {}={}", name, exact(value));
  }
  std::string text = fmt::format("{} ({}{}): ", exact(at(record, {"kernel"})),
                                 exact(at(record, {"backend"})), config);
  const std::string status = exact(at(record, {"status"}));
  const Json evidence = at(record, {"evidence"});
  if (status != "ok" && evidence.is_null()) {
    return text + status + ": " + exact(at(record, {"reason"}));
  }
  if (evidence.is_null()) return text + "nobody looked at what ran";
  const Json as_asked = at(evidence, {"as_asked"});
  text += as_asked.is_null() ? "what ran was not seen"
          : as_asked == true ? "ran as asked"
                             : "did not run as asked";
  text += at(evidence, {"verified"}) == true ? ", verified" : ", not verified";
  text += at(evidence, {"timed"}) == true ? ", timed" : ", not timed";
  const std::string reason = exact(at(evidence, {"reason"}));
  if (status != "ok") return text + fmt::format(", {}: {}", status, exact(at(record, {"reason"})));
  return text + (reason.empty() ? "" : ": " + reason);
}

// Puts the points of a case, which stand side by side in a file, under one line.
std::string render_text(const std::vector<Json>& records, TableFormat format) {
  std::string text;
  Json last_id;
  for (const Json& record : records) {
    const Json id = at(record, {"id"});
    if (id != last_id) text += (text.empty() ? "" : "\n") + exact(id) + '\n';
    last_id = id;
    text += '\n' + wrap(headline(record), 2);
    const Json executed = at(record, {"evidence", "executed"});
    if (!executed.is_array() || executed.empty()) continue;
    const TextTable table = kernels_table(executed);
    text += format == TableFormat::markdown ? "\n" + render_markdown(table) : render_plain(table);
    const std::string beyond = exact(find_field("beyond", "").read(record));
    const Json percent = find_field("beyond_percent", "").read(record);
    if (beyond.empty()) continue;
    const std::string share =
        percent.is_null() ? "" : fmt::format(", {:.1f} % of the time", percent.get<double>());
    text += wrap(fmt::format("  beyond what the operation needs: {}{}", beyond, share), 4);
  }
  return text;
}

// Returns one flat object for each kernel that ran.
Json flat(const std::vector<Json>& records) {
  Json rows = Json::array();
  for (const Json& record : records) {
    Json executed = at(record, {"evidence", "executed"});
    if (!executed.is_array() || executed.empty()) executed = Json::array({Json::object()});
    for (const Json& kernel : executed) {
      Json row = {{"id", at(record, {"id"})},
                  {"kernel", at(record, {"kernel"})},
                  {"backend", at(record, {"backend"})},
                  {"config", find_field("config", "").read(record)},
                  {"status", at(record, {"status"})}};
      for (const char* key : {"as_asked", "verified", "timed", "reason"}) {
        row[key] = at(record, {"evidence", key});
      }
      for (const char* key : {"symbol", "grid", "block", "registers", "static_shared_bytes",
                              "dynamic_shared_bytes", "shared_bytes", "launches"}) {
        row[key] = at(kernel, {key});
      }
      rows.push_back(row);
    }
  }
  return rows;
}

std::string render_lines(const Json& rows) {
  TextTable table;
  for (const auto& [name, value] : rows.at(0).items()) table.columns.push_back({.title = name});
  for (const Json& row : rows) {
    table.rows.emplace_back();
    for (const auto& [name, value] : row.items()) {
      table.rows.back().push_back({value.is_array() ? sizes(value) : exact(value)});
    }
  }
  return render_csv(table);
}

}  // namespace

std::string render_evidence(const std::vector<Json>& records, const TableOptions& options) {
  const std::vector<Json> chosen = last_of_each_point(choose(records, options.where));
  switch (options.format) {
    case TableFormat::json: return flat(chosen).dump(1) + "\n";
    case TableFormat::csv: return render_lines(flat(chosen));
    case TableFormat::table:
    case TableFormat::markdown: break;
  }
  return render_text(chosen, options.format);
}

}  // namespace attnlab
