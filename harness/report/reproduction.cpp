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

// Returns whether a cell is measured or could be, and has something to show.
bool is_shown(const PaperCell& cell) {
  return cell.is_measurable && (!cell.record.empty() || cell.published.is_number());
}

// Returns the titles of rows: the published columns that name them.
std::string row_title(const PaperTable& table) {
  return fmt::format("{}", fmt::join(table.rows.key, ", "));
}

constexpr const char* kByProtocol = "by protocol";

void add_span(std::vector<TextCell>& row, const PaperCell& cell, Footnotes& notes) {
  const std::optional<Span> span = span_of(cell);
  row.push_back({span ? short_number(span->least) : "-"});
  const std::string most = span ? short_number(span->most) : "-";
  row.push_back({span && !span->lacks.empty() ? notes.mark(most, span->lacks) : most});
}

// Says which protocols the spans are of, and why not of others.
std::string protocols_text(const Reproduction& all) {
  if (all.protocols.empty()) return "";
  std::vector<std::string> used;
  std::map<std::string, std::vector<std::string>> missing;  // by reason
  for (const ProtocolUse& use : all.protocols) {
    (use.missing.empty() ? used : missing[use.missing]).push_back(use.name);
  }
  std::string text = fmt::format("By protocol: the least and the most of the medians by {}",
                                 fmt::join(used, ", "));
  for (const auto& [reason, names] : missing) {
    text += fmt::format("; not {}: {}", fmt::join(names, ", "), reason);
  }
  return wrap(fmt::format("{}. Verdicts rest on {}.", text, used.front()));
}

TextTable cell_table(const ReproducedTable& reproduced, Footnotes& notes) {
  TextTable text{.columns = {{"", row_title(*reproduced.table), true, true},
                             {"", "column", true, true},
                             {"", "published"},
                             {"", "measured"},
                             {"", "+-%"},
                             {"", "ratio"}}};
  const bool has_spans = std::ranges::any_of(
      reproduced.cells, [](const PaperCell& cell) { return !cell.by_protocol.empty(); });
  if (has_spans) {
    text.columns.push_back({kByProtocol, "least"});
    text.columns.push_back({kByProtocol, "most"});
  }
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
    if (has_spans) add_span(text.rows.back(), cell, notes);
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

// Says which fields of records the cells are, as "peak_mib (measured peak ...), time_ms (...)".
std::string values_text(const PaperTable& table) {
  std::string text;
  for (const std::string& value : values_of(table)) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", value,
                        find_field(value, "value").summary);
  }
  return text;
}

// Returns what stands above a table.
std::string head_of(const ReproducedTable& reproduced, const Reproduction& all, bool is_markdown) {
  const Json& published = reproduced.published->json;
  const std::string title =
      fmt::format("{}: {} ({})", reproduced.table->published, published["title"].get<std::string>(),
                  published["units"].get<std::string>());
  std::string text = is_markdown ? fmt::format("## {}\n\n", title) : wrap(title);
  text += wrap(fmt::format("Source: {}.", source_of(*reproduced.published)));
  text += wrap(fmt::format("Published: {}; {}.", published_gpu(*reproduced.published),
                           setting_of(published["setting"])));
  text += wrap(fmt::format("Measured: {}: {}.", all.device.empty() ? "nothing yet" : all.device,
                           values_text(*reproduced.table)));
  if (!all.cut.empty()) text += wrap(fmt::format("Cut to: {}.", all.cut));
  return text + protocols_text(all) + "\n";
}

// Lists what the source has but nothing measures, with the reasons.
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
                             {"", "least"},
                             {"", "most"},
                             {"", "trouble", true},
                             {"", "record", true}}};
  const auto digits = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : "";
  };
  for (const ReproducedTable& table : all.tables) {
    for (const PaperCell& cell : table.cells) {
      const std::optional<Span> span = span_of(cell);
      text.rows.push_back({{table.table->published},
                           {cell.row},
                           {cell.column},
                           {exact(cell.published)},
                           {digits(cell.measured)},
                           {digits(cell.interval_percent)},
                           {digits(cell.ratio)},
                           {span ? digits(span->least) : ""},
                           {span ? digits(span->most) : ""},
                           {cell.trouble},
                           {cell.record}});
    }
  }
  return render_csv(text);
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json json_of(const ProtocolUse& use) {
  return {{"name", use.name}, {"records", use.file}, {"missing", use.missing}};
}

Json json_of(const PaperCell& cell, bool has_protocols) {
  Json json = {{"row", cell.row},
               {"column", cell.column},
               {"published", cell.published},
               {"measured", optional_json(cell.measured)},
               {"interval_percent", optional_json(cell.interval_percent)},
               {"ratio", optional_json(cell.ratio)},
               {"trouble", cell.trouble},
               {"record", cell.record}};
  if (!has_protocols) return json;
  const std::optional<Span> span = span_of(cell);
  json["least"] = span ? Json(span->least) : Json();
  json["most"] = span ? Json(span->most) : Json();
  json["by_protocol"] = Json::array();
  for (const ProtocolReading& reading : cell.by_protocol) {
    json["by_protocol"].push_back({{"protocol", reading.protocol},
                                   {"measured", optional_json(reading.measured)},
                                   {"trouble", reading.trouble},
                                   {"record", reading.record}});
  }
  return json;
}

bool concerns(const Claim& claim, const std::vector<std::string>& ids) {
  return ids.empty() || std::ranges::any_of(claim.tables, [&](const std::string& id) {
           return std::ranges::find(ids, id) != ids.end();
         });
}

// Joins the different values of a field, each once, in order.
std::string values_of(const std::vector<Json>& records, const std::vector<const char*>& path) {
  std::set<std::string> values;
  for (const Json& record : records) {
    const Json value = at(record, path);
    if (!value.is_null()) values.insert(exact(value));
  }
  return fmt::format("{}", fmt::join(values, " and "));
}

// Names what a record says of where and by what it was made, and where it says so.
const std::vector<std::pair<const char*, std::vector<const char*>>> kEnvironment = {
    {"device", {"device", "name"}},
    {"instruction set", {"device", "isa"}},
    {"driver", {"device", "cuda", "driver"}},
    {"power limit, W", {"device", "cuda", "power_limit_w"}},
    {"version", {"build", "version"}},
    {"commit", {"build", "commit"}},
    {"compiler", {"build", "compiler"}},
    {"peer", {"peer", "version"}},
    {"command", {"command_line"}},
};
constexpr const char* kProtocol = "protocol";
constexpr const char* kMeasured = "measured";

// Says how a record was timed: "hot, burst; rounds 9, at most 3 s; warm-up 0.05 s, launches 1 or
// more". Records from before that number was in them had 1.
std::string protocol_of(const Json& record) {
  const auto text = [&](const char* key) { return exact(at(record, {"protocol", key})); };
  std::string rounds = text("min_rounds"), launches = text("warmup_launches");
  if (text("max_rounds") != rounds) rounds += " to " + text("max_rounds");
  if (launches.empty()) launches = "1";
  return fmt::format("{}, {}; rounds {}, at most {} s; warm-up {} s, launches {} or more",
                     text("cache"), text("regime"), rounds, text("max_seconds"),
                     text("warmup_seconds"), launches);
}

// Returns what records say of where, when and by what they were made; leaves out what none has.
Json environment_of(const std::vector<Json>& records) {
  Json environment = Json::object();
  for (const auto& [key, path] : kEnvironment) {
    const std::string text = values_of(records, path);
    if (!text.empty()) environment[key] = text;
  }
  if (!records.empty()) {
    std::set<std::string> protocols;
    for (const Json& record : records) {
      if (record.contains("protocol")) protocols.insert(protocol_of(record));
    }
    if (!protocols.empty())
      environment[kProtocol] = fmt::format("{}", fmt::join(protocols, " and "));
    const auto time_of = [](const Json& record) { return exact(at(record, {"timestamp"})); };
    const auto [first, last] =
        std::ranges::minmax(records, {}, [&](const Json& record) { return time_of(record); });
    environment[kMeasured] = fmt::format("{} to {}", time_of(first), time_of(last));
  }
  return environment;
}

void refuse_several_devices(const PaperFile& paper, const std::string& device,
                            const OtherProtocols& protocols) {
  std::set<std::string> names = {device};
  for (const auto& other : protocols.others) {
    names.insert(values_of(other.second, {"device", "name"}));
  }
  names.erase("");
  const std::string devices = fmt::format("{}", fmt::join(names, " and "));
  if (devices.find(" and ") == std::string::npos) return;
  refuse(paper.name, fmt::format("the records are of several devices ({}), of which no ratio is "
                                 "one: keep a folder for each",
                                 devices));
}

// Judges a change of letters; returns none where nothing got worse.
std::optional<Setback> setback_of(const std::string& was, const std::string& is) {
  if (!is_verdict(was)) return is == "N" ? std::optional(Setback::unforeseen) : std::nullopt;
  if (!is_verdict(is)) return Setback::lost;
  const bool is_worse = (is == "N" && was != "N") || (is == "S" && was == "R");
  return is_worse ? std::optional(Setback::worse) : std::nullopt;
}

}  // namespace

bool is_verdict(const std::string& letter) {
  return letter == "R" || letter == "S" || letter == "N";
}

const char* to_string(Setback setback) {
  switch (setback) {
    case Setback::worse: return "worse";
    case Setback::lost: return "lost";
    case Setback::unforeseen: return "unforeseen";
  }
  return "";
}

Reproduction reproduce(const PaperFile& paper, const PublishedTables& published,
                       const std::vector<Json>& records, const std::vector<std::string>& ids,
                       const OtherProtocols& protocols) {
  Reproduction all{.paper = &paper,
                   .device = values_of(records, {"device", "name"}),
                   .environment = environment_of(records)};
  refuse_several_devices(paper, all.device, protocols);
  if (!protocols.own.empty()) all.protocols.push_back({.name = protocols.own});
  for (const auto& other : protocols.others) all.protocols.push_back(other.first);
  const std::string file = paper.path.string();
  for (const PaperTable& table : paper.tables) {
    if (!ids.empty() && std::ranges::find(ids, table.published) == ids.end()) continue;
    const PublishedTable& source = find_published(published, table.published, file);
    const std::string where = fmt::format("{}: {}", file, table.published);
    all.tables.push_back({&table, &source, cells_of(table, source, records, where)});
    for (const auto& [use, others] : protocols.others) {
      if (!use.missing.empty()) continue;
      add_readings(all.tables.back().cells, use.name, cells_of(table, source, others, where));
    }
  }
  for (const Claim& claim : paper.claims) {
    if (concerns(claim, ids)) all.claims.push_back({&claim, judge(claim, records)});
  }
  return all;
}

std::vector<std::string> environment_keys() {
  std::vector<std::string> keys;
  for (const auto& line : kEnvironment) keys.emplace_back(line.first);
  for (const char* own : {kProtocol, kMeasured}) keys.emplace_back(own);
  return keys;
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
  if (!all.protocols.empty()) json["protocols"] = Json::array();
  for (const ProtocolUse& use : all.protocols) json["protocols"].push_back(json_of(use));
  for (const ReproducedTable& table : all.tables) {
    Json cells = Json::array();
    for (const PaperCell& cell : table.cells) {
      cells.push_back(json_of(cell, !all.protocols.empty()));
    }
    json["tables"].push_back({{"id", table.table->published},
                              {"title", table.published->json["title"]},
                              {"units", table.published->json["units"]},
                              {"row_title", row_title(*table.table)},
                              {"column_title", table.table->columns.field},
                              {"gpu", published_gpu(*table.published)},
                              {"values", values_text(*table.table)},
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
  for (const auto& finding : findings) {
    const std::string &id = finding.first, &was = finding.second;
    const bool is_there =
        std::ranges::any_of(now.paper->claims, [&](const Claim& claim) { return claim.id == id; });
    if (is_there || !is_verdict(was)) continue;
    all.push_back({id, fmt::format("{} was {} and is no claim any more", id, was), Setback::lost});
  }
  for (const auto& [claim, judgement] : now.claims) {
    const auto found = findings.find(claim->id);
    if (found == findings.end()) continue;
    const std::string& was = found->second;
    const std::string is = letter_of(judgement.finding);
    const std::optional<Setback> how = setback_of(was, is);
    if (!how) continue;
    all.push_back({claim->id,
                   fmt::format("{} was {} and is {}: {}", claim->id, was, is, judgement.reason),
                   *how});
  }
  return all;
}

}  // namespace attnlab
