#include "harness/report/reproduction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/base/strict_json.h"
#include "harness/report/fields.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kReproductionSchema = "attnlab.reproduction/1";
constexpr Finding kFindings[] = {Finding::reproduced, Finding::in_shape, Finding::not_reproduced,
                                 Finding::not_applicable, Finding::not_run};

std::string published_text(const Json& value) {
  if (value.is_number()) return exact(value);
  return value.is_string() ? value.get<std::string>() : "-";
}

std::string measured_text(const PaperCell& cell, Footnotes& notes) {
  const bool is_missing = cell.record.empty() || (!cell.measured && cell.lacks_other);
  if (is_missing) return "not run";
  if (!cell.measured) return notes.mark("-", cell.trouble);
  return cell.trouble.empty() ? short_number(*cell.measured)
                              : notes.mark(short_number(*cell.measured), cell.trouble);
}

// A cell for which something is or could be measured, of which there is something to show.
bool is_shown(const PaperCell& cell) {
  return cell.is_measurable && (!cell.record.empty() || cell.published.is_number());
}

// The titles of rows: the published columns that name them.
std::string row_title(const PaperTable& table) {
  return fmt::format("{}", fmt::join(table.rows.key, ", "));
}

TextTable cell_table(const ReproducedTable& reproduced, Footnotes& notes) {
  TextTable text{.columns = {{"", row_title(*reproduced.table), true, true},
                             {"", "column", true, true},
                             {"", "published"},
                             {"", "measured"},
                             {"", "+-%"},
                             {"", "ratio"}}};
  if (!reproduced.table->columns.field.empty()) {
    text.columns[1].title = reproduced.table->columns.field;
  }
  for (const PaperCell& cell : reproduced.cells) {
    if (!is_shown(cell)) continue;
    text.rows.push_back(
        {{cell.row},
         {cell.column},
         {published_text(cell.published)},
         {measured_text(cell, notes)},
         {cell.interval_percent ? fmt::format("{:.2f}", *cell.interval_percent) : "-"},
         {cell.ratio ? fmt::format("{:.3g}", *cell.ratio) : "-"}});
  }
  return text;
}

std::string setting_of(const Json& setting) {
  std::string text;
  for (const char* key :
       {"dtype", "batch", "heads", "head_dim", "causal", "dropout", "mask", "pass"}) {
    const Json value = setting.value(key, Json());
    if (value.is_null()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

// What stands above a table.
std::string head_of(const ReproducedTable& reproduced, const Reproduction& all, bool is_markdown) {
  const Json& published = reproduced.published->json;
  const std::string title =
      fmt::format("{}: {} ({})", reproduced.table->published, published["title"].get<std::string>(),
                  published["units"].get<std::string>());
  std::string text = is_markdown ? fmt::format("## {}\n\n", title) : wrap(title);
  text += wrap(fmt::format("Published: {}; {}.", published_gpu(*reproduced.published),
                           setting_of(published["setting"])));
  text += wrap(fmt::format("Measured: {}.", all.device.empty() ? "nothing yet" : all.device));
  if (!all.cut.empty()) text += wrap(fmt::format("Cut to: {}.", all.cut));
  return text + "\n";
}

// What the source has and nothing is measured for, with the reasons.
std::string published_only(const PaperTable& table) {
  std::string text;
  for (const PaperAxis* axis : {&table.rows, &table.columns}) {
    for (const PaperEntry& entry : axis->entries) {
      if (!entry.rule)
        text += wrap(fmt::format("Published only: {}: {}.", entry.name, entry.reason), 2);
    }
  }
  return text;
}

std::string notes_of(const ReproducedTable& reproduced) {
  std::string text = published_only(*reproduced.table);
  for (const std::string& note : reproduced.table->notes) text += wrap("Note: " + note, 2);
  return text.empty() ? "" : "\n" + text;
}

std::string claims_text(const std::vector<JudgedClaim>& claims, bool is_markdown) {
  std::string text = is_markdown ? "## Claims\n\n" : "Claims\n";
  for (const auto& [claim, judgement] : claims) {
    const std::string head = fmt::format("{} {}: {} [{}]", letter_of(judgement.finding), claim->id,
                                         claim->text, claim->source);
    const std::string published =
        claim->published ? fmt::format("published {:.4g}; ", *claim->published) : "";
    text += is_markdown ? fmt::format("- {}<br>{}{}\n", head, published, judgement.reason)
                        : wrap(head, 2) + wrap("    " + published + judgement.reason, 4);
  }
  return text;
}

std::string csv(const Reproduction& all) {
  TextTable text{.columns = {{"", "table", true, true},
                             {"", "row", true, true},
                             {"", "column", true, true},
                             {"", "published"},
                             {"", "measured"},
                             {"", "interval_percent"},
                             {"", "ratio"},
                             {"", "trouble", true},
                             {"", "record", true}}};
  const auto digits = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : "";
  };
  for (const ReproducedTable& table : all.tables) {
    for (const PaperCell& cell : table.cells) {
      text.rows.push_back({{table.table->published},
                           {cell.row},
                           {cell.column},
                           {exact(cell.published)},
                           {digits(cell.measured)},
                           {digits(cell.interval_percent)},
                           {digits(cell.ratio)},
                           {cell.trouble},
                           {cell.record}});
    }
  }
  return render_csv(text);
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

bool concerns(const Claim& claim, const std::vector<std::string>& ids) {
  return ids.empty() || std::ranges::any_of(claim.tables, [&](const std::string& id) {
           return std::ranges::find(ids, id) != ids.end();
         });
}

// The different values of a field, each once, in order.
std::string values_of(const std::vector<Json>& records, const std::vector<const char*>& path) {
  std::set<std::string> values;
  for (const Json& record : records) {
    const Json value = at(record, path);
    if (!value.is_null()) values.insert(exact(value));
  }
  return fmt::format("{}", fmt::join(values, " and "));
}

// What records say of where, when and by what they were made; what none has is left out.
Json environment_of(const std::vector<Json>& records) {
  Json environment = Json::object();
  const auto add = [&](const char* key, const std::vector<const char*>& path) {
    const std::string text = values_of(records, path);
    if (!text.empty()) environment[key] = text;
  };
  add("device", {"device", "name"});
  add("instruction set", {"device", "isa"});
  add("driver", {"device", "cuda", "driver"});
  add("power limit, W", {"device", "cuda", "power_limit_w"});
  add("version", {"build", "version"});
  add("commit", {"build", "commit"});
  add("compiler", {"build", "compiler"});
  add("peer", {"peer", "version"});
  add("command", {"command_line"});
  if (!records.empty()) {
    const auto time_of = [](const Json& record) { return exact(at(record, {"timestamp"})); };
    const auto [first, last] =
        std::ranges::minmax(records, {}, [&](const Json& record) { return time_of(record); });
    environment["measured"] = fmt::format("{} to {}", time_of(first), time_of(last));
  }
  return environment;
}

}  // namespace

Reproduction reproduce(const PaperFile& paper, const PublishedTables& published,
                       const std::vector<Json>& records, const std::vector<std::string>& ids) {
  Reproduction all{.paper = &paper,
                   .device = values_of(records, {"device", "name"}),
                   .environment = environment_of(records)};
  if (all.device.find(" and ") != std::string::npos) {
    refuse(paper.name, fmt::format("the records are of several devices ({}), of which no ratio is "
                                   "one: keep a folder for each",
                                   all.device));
  }
  const std::string file = paper.path.string();
  for (const PaperTable& table : paper.tables) {
    if (!ids.empty() && std::ranges::find(ids, table.published) == ids.end()) continue;
    const PublishedTable& source = find_published(published, table.published, file);
    const std::string where = fmt::format("{}: {}", file, table.published);
    all.tables.push_back({&table, &source, cells_of(table, source, records, where)});
  }
  for (const Claim& claim : paper.claims) {
    if (concerns(claim, ids)) all.claims.push_back({&claim, judge(claim, records)});
  }
  return all;
}

std::string short_number(double value) {
  const bool is_small = value != 0.0 && std::abs(value) < 0.1;
  return is_small ? fmt::format("{:.3g}", value) : display(find_field("time_ms", ""), value);
}

std::string count_findings(const std::vector<JudgedClaim>& claims) {
  std::string text;
  for (const Finding finding : kFindings) {
    const auto count = std::ranges::count_if(
        claims, [&](const JudgedClaim& claim) { return claim.judgement.finding == finding; });
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", count, to_string(finding),
                        letter_of(finding));
  }
  return text;
}

std::string render_reproduction(const Reproduction& all, TableFormat format) {
  if (format == TableFormat::csv) return csv(all);
  if (format == TableFormat::json) return to_json(all).dump(1) + "\n";
  const bool is_markdown = format == TableFormat::markdown;
  std::string text;
  for (const ReproducedTable& table : all.tables) {
    Footnotes notes;
    const TextTable cells = cell_table(table, notes);
    text += head_of(table, all, is_markdown);
    text += is_markdown ? render_markdown(cells) : render_plain(cells);
    text += notes.text() + notes_of(table) + "\n";
  }
  if (!all.claims.empty()) {
    text += claims_text(all.claims, is_markdown);
    text += "\n" + wrap(fmt::format("{}: {}.", all.paper->name, count_findings(all.claims)));
  }
  return text;
}

Json to_json(const Reproduction& all) {
  Json json = {
      {"schema", kReproductionSchema},  {"name", all.paper->name}, {"title", all.paper->title},
      {"device", all.device},           {"records", all.records},  {"cut", all.cut},
      {"environment", all.environment}, {"tables", Json::array()}, {"claims", Json::array()}};
  for (const ReproducedTable& table : all.tables) {
    Json cells = Json::array();
    for (const PaperCell& cell : table.cells) {
      cells.push_back({{"row", cell.row},
                       {"column", cell.column},
                       {"published", cell.published},
                       {"measured", optional_json(cell.measured)},
                       {"interval_percent", optional_json(cell.interval_percent)},
                       {"ratio", optional_json(cell.ratio)},
                       {"trouble", cell.trouble},
                       {"record", cell.record}});
    }
    json["tables"].push_back({{"id", table.table->published},
                              {"title", table.published->json["title"]},
                              {"units", table.published->json["units"]},
                              {"row_title", row_title(*table.table)},
                              {"column_title", table.table->columns.field},
                              {"gpu", published_gpu(*table.published)},
                              {"source", table.published->json["source"]},
                              {"notes", table.table->notes},
                              {"cells", cells}});
  }
  for (const auto& [claim, judgement] : all.claims) {
    json["claims"].push_back({{"id", claim->id},
                              {"tables", claim->tables},
                              {"text", claim->text},
                              {"source", claim->source},
                              {"finding", letter_of(judgement.finding)},
                              {"published", optional_json(claim->published)},
                              {"measured", optional_json(judgement.measured)},
                              {"reason", judgement.reason}});
  }
  return json;
}

Json read_result(const std::filesystem::path& file) {
  const Json result = read_json_file(file);
  const auto is_array = [&](const char* key) {
    return result.contains(key) && result[key].is_array();
  };
  const bool is_one = result.is_object() && result.value("schema", Json()) == kReproductionSchema &&
                      result.contains("name") && result["name"].is_string() &&
                      result.contains("device") && result["device"].is_string() &&
                      is_array("tables") && is_array("claims") &&
                      std::ranges::all_of(result["claims"], [](const Json& claim) {
                        return claim.is_object() && claim.value("id", Json()).is_string() &&
                               claim.value("finding", Json()).is_string();
                      });
  if (!is_one) {
    refuse(file.string(),
           fmt::format("is no \"{}\", as attnlab reproduce --out writes it", kReproductionSchema));
  }
  return result;
}

std::vector<Worsened> worse_than(const Json& before, const Reproduction& now) {
  std::map<std::string, std::string> findings;
  for (const Json& claim : before.at("claims")) {
    findings[claim.at("id").get<std::string>()] = claim.at("finding").get<std::string>();
  }
  std::vector<Worsened> all;
  const auto had_verdict = [](const std::string& was) {
    return was == "R" || was == "S" || was == "N";
  };
  for (const auto& finding : findings) {
    const std::string &id = finding.first, &was = finding.second;
    const bool is_there =
        std::ranges::any_of(now.paper->claims, [&](const Claim& claim) { return claim.id == id; });
    if (is_there || !had_verdict(was)) continue;
    all.push_back({id, fmt::format("{} was {} and is no claim any more", id, was), true});
  }
  for (const auto& [claim, judgement] : now.claims) {
    const auto found = findings.find(claim->id);
    if (found == findings.end()) continue;
    const std::string& was = found->second;
    const std::string is = letter_of(judgement.finding);
    const bool held = was == "R" || was == "S";
    const bool is_lost = had_verdict(was) && (is == "U" || is == "X");
    const bool is_worse = (held && is == "N") || (was == "R" && is == "S");
    if (!is_lost && !is_worse) continue;
    all.push_back({claim->id,
                   fmt::format("{} was {} and is {}: {}", claim->id, was, is, judgement.reason),
                   is_lost});
  }
  return all;
}

}  // namespace attnlab
