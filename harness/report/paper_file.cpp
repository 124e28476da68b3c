// Reads paper files strictly; sweeps/paper/README.md describes the format.
#include "harness/report/paper_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/base/strict_json.h"
#include "harness/base/suggest.h"
#include "harness/plan/sweep_file.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPaperSchema = "attnlab.paper/1";
constexpr const char* kEnding = ".paper";

// Returns the values of a condition as fields print them.
std::vector<std::string> read_values(const Json& json, const std::string& where) {
  std::vector<std::string> values;
  for (const Json& value : json.is_array() ? json : Json::array({json})) {
    if (!value.is_string() && !value.is_number()) {
      refuse(where, "must be a number, a text or an array of these");
    }
    values.push_back(exact(value));
  }
  if (values.empty()) refuse(where, "must not be empty");
  return values;
}

Conditions read_conditions(const Json& json, const std::string& where) {
  if (!json.is_object()) refuse(where, "must be an object FIELD -> value");
  Conditions conditions;
  for (const auto& [field, value] : json.items()) {
    find_field(field, where);
    conditions.emplace_back(field, read_values(value, fmt::format("{}.{}", where, field)));
  }
  return conditions;
}

Conditions read_optional_conditions(const Json& json, const char* key, const std::string& where) {
  if (!json.contains(key)) return {};
  return read_conditions(json[key], fmt::format("{}.{}", where, key));
}

std::string read_field(const Json& json, const char* key, const std::string& where) {
  const std::string place = fmt::format("{}.{}", where, key);
  const std::string name = read_string(json[key], place);
  find_field(name, place);
  return name;
}

std::vector<std::string> read_texts(const Json& json, const std::string& where) {
  if (!json.is_array()) refuse(where, "must be an array of texts");
  std::vector<std::string> texts;
  for (const Json& item : json) texts.push_back(read_string(item, where));
  return texts;
}

CellRule read_rule(Json json, const std::string& where) {
  if (!json.is_object())
    refuse(where, "must be a condition, or a text that says why there is none");
  CellRule rule;
  if (json.contains("value")) {
    rule.value = read_field(json, "value", where);
    json.erase("value");
  }
  if (json.contains("scale")) {
    rule.scale = read_number(json["scale"], 1e-12, 1e12, where + ".scale");
    json.erase("scale");
  }
  if (json.contains("over")) {
    rule.over = read_conditions(json["over"], where + ".over");
    json.erase("over");
  }
  rule.where = read_conditions(json, where);
  return rule;
}

std::vector<PaperEntry> read_entries(const Json& json, const std::string& where) {
  if (!json.is_object()) refuse(where, "must be an object NAME -> condition or text");
  std::vector<PaperEntry> entries;
  for (const auto& [name, value] : json.items()) {
    const std::string place = fmt::format("{}['{}']", where, name);
    PaperEntry entry{.name = name};
    if (value.is_string()) {
      entry.reason = read_string(value, place);
    } else {
      entry.rule = read_rule(value, place);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

PaperAxis read_axis(const Json& json, bool is_row, const std::string& where) {
  check_keys(json, {"key", "field", "select", "beside"}, where);
  if (json.contains("field") == json.contains("select")) {
    refuse(where, "has one of 'field' and 'select'");
  }
  if (json.contains("key") != is_row) {
    refuse(where, is_row ? "key 'key' is missing: the published column that names the rows"
                         : "has no 'key': published columns are named by their titles");
  }
  PaperAxis axis;
  if (is_row) {
    const Json& key = json["key"];
    axis.key = read_texts(key.is_string() ? Json::array({key}) : key, where + ".key");
    if (axis.key.empty()) refuse(where + ".key", "must not be empty");
  }
  if (json.contains("field")) axis.field = read_field(json, "field", where);
  if (json.contains("select")) axis.entries = read_entries(json["select"], where + ".select");
  if (json.contains("beside")) axis.beside = read_entries(json["beside"], where + ".beside");
  return axis;
}

PaperTable read_table(const Json& json, const std::string& where) {
  check_keys(json, {"published", "where", "rows", "columns", "value", "notes"}, where);
  require_keys(json, {"published", "rows", "columns", "value"}, where);
  PaperTable table;
  table.published = read_string(json["published"], where + ".published");
  table.where = read_optional_conditions(json, "where", where);
  table.rows = read_axis(json["rows"], true, where + ".rows");
  table.columns = read_axis(json["columns"], false, where + ".columns");
  table.value = read_field(json, "value", where);
  if (json.contains("notes")) table.notes = read_texts(json["notes"], where + ".notes");
  return table;
}

// Returns the value behind a word.
template <class T>
T read_word(const Json& json, const std::vector<std::pair<std::string, T>>& words,
            const std::string& where) {
  const std::string text = read_string(json, where);
  std::vector<std::string> known;
  for (const auto& [word, value] : words) {
    if (word == text) return value;
    known.push_back(word);
  }
  refuse(where, fmt::format("'{}' is none of {}{}", text, fmt::join(known, ", "),
                            suggestion(text, known)));
}

Bounds read_bounds(const Json& json, const std::string& where) {
  check_keys(json, {"at_least", "at_most"}, where);
  if (json.empty()) refuse(where, "has neither at_least nor at_most");
  Bounds bounds;
  const auto read = [&](const char* key, std::optional<double>& bound) {
    if (json.contains(key)) bound = read_number(json[key], 1e-12, 1e15, where + "." + key);
  };
  read("at_least", bounds.at_least);
  read("at_most", bounds.at_most);
  return bounds;
}

// Returns the keys of a claim of each kind, beside those that all have.
std::vector<std::string> keys_of(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::ratio: return {"value", "of", "over", "where", "statistic", "reproduced"};
    case ClaimKind::value: return {"value", "of", "where", "statistic", "reproduced"};
    case ClaimKind::growth: return {"value", "of", "where", "along", "reproduced"};
    case ClaimKind::order: return {"value", "of", "where"};
    case ClaimKind::crossover: return {"value", "of", "over", "where", "along", "reproduced"};
    case ClaimKind::status: return {"of", "where", "expected"};
    case ClaimKind::not_here: return {"reason"};
  }
  return {};
}

// Throws where an exponent or crossover has no row of points to lie on.
void check_along(const Claim& claim, const std::string& where) {
  if (claim.along.empty()) return;
  for (const auto& [field, values] : claim.where) {
    const bool is_row = field == claim.along && values.size() > 1;
    if (is_row) continue;
    if (field == claim.along || values.size() > 1) {
      refuse(where + ".where",
             fmt::format("has several values of '{}', and of nothing else", claim.along));
    }
  }
  const bool has_it = std::ranges::any_of(
      claim.where, [&](const auto& condition) { return condition.first == claim.along; });
  if (!has_it)
    refuse(where + ".where", fmt::format("lacks '{}', along which it goes", claim.along));
}

void read_sides(Claim& claim, const Json& json, const std::string& where) {
  if (!json.contains("of")) return;
  const bool is_list = claim.kind == ClaimKind::order;
  if (json["of"].is_array() != is_list) {
    refuse(where + ".of",
           is_list ? "must be an array of conditions, the fastest first" : "must be a condition");
  }
  for (const Json& side : is_list ? json["of"] : Json::array({json["of"]})) {
    claim.of.push_back(read_conditions(side, where + ".of"));
  }
  if (is_list && claim.of.size() < 2) refuse(where + ".of", "needs two or more");
}

Claim read_claim(const Json& json, const std::string& where) {
  if (!json.is_object()) refuse(where, "must be an object");
  require_keys(json, {"id", "tables", "text", "source", "kind"}, where);
  Claim claim;
  claim.id = read_string(json["id"], where + ".id");
  const std::string place = fmt::format("{} ({})", where, claim.id);
  claim.kind = read_word<ClaimKind>(json["kind"],
                                    {{"ratio", ClaimKind::ratio},
                                     {"value", ClaimKind::value},
                                     {"growth", ClaimKind::growth},
                                     {"order", ClaimKind::order},
                                     {"crossover", ClaimKind::crossover},
                                     {"status", ClaimKind::status},
                                     {"not_here", ClaimKind::not_here}},
                                    place + ".kind");
  std::vector<std::string> known = keys_of(claim.kind);
  require_keys(json, known, place);
  for (const char* key : {"id", "tables", "text", "source", "kind", "applies", "published"}) {
    known.emplace_back(key);
  }
  const bool is_bounded = json.contains("reproduced");
  if (is_bounded) known.emplace_back("shape");
  if (is_bounded || claim.kind == ClaimKind::order) known.emplace_back("tolerance");
  check_keys(json, known, place);
  claim.tables = read_texts(json["tables"], place + ".tables");
  claim.text = read_string(json["text"], place + ".text");
  claim.source = read_string(json["source"], place + ".source");
  if (json.contains("value")) claim.value = read_field(json, "value", place);
  if (json.contains("along")) claim.along = read_field(json, "along", place);
  if (json.contains("reason")) claim.reason = read_string(json["reason"], place + ".reason");
  read_sides(claim, json, place);
  claim.over = read_optional_conditions(json, "over", place);
  claim.where = read_optional_conditions(json, "where", place);
  claim.applies = read_optional_conditions(json, "applies", place);
  check_along(claim, place);
  if (json.contains("statistic")) {
    claim.statistic = read_word<ClaimStatistic>(json["statistic"],
                                                {{"least", ClaimStatistic::least},
                                                 {"most", ClaimStatistic::most},
                                                 {"mean", ClaimStatistic::mean}},
                                                place + ".statistic");
  }
  if (json.contains("expected")) {
    const std::vector<std::pair<std::string, std::string>> words = {
        {"ok", "ok"}, {"out_of_memory", "out_of_memory"}, {"unsupported", "unsupported"}};
    claim.expected = read_word(json["expected"], words, place + ".expected");
  }
  if (json.contains("published")) {
    claim.published = read_number(json["published"], -1e15, 1e15, place + ".published");
  }
  if (is_bounded) claim.reproduced = read_bounds(json["reproduced"], place + ".reproduced");
  if (json.contains("shape")) claim.shape = read_bounds(json["shape"], place + ".shape");
  if (json.contains("tolerance")) {
    claim.tolerance = read_number(json["tolerance"], 0.0, 0.5, place + ".tolerance");
  }
  return claim;
}

PaperBudget read_budget(const Json& json, const std::string& where) {
  check_keys(json, {"minutes", "memory_gib", "cpu_minutes"}, where);
  require_keys(json, {"minutes", "memory_gib"}, where);
  const auto read = [&](const char* key) {
    return read_number(json[key], 0.0, 1e4, where + "." + key);
  };
  PaperBudget budget{.minutes = read("minutes"), .memory_gib = read("memory_gib")};
  if (json.contains("cpu_minutes")) budget.cpu_minutes = read("cpu_minutes");
  return budget;
}

// Returns the sweep as a file of its own, after a reader of sweeps has accepted it.
Json read_inner_sweep(const Json& json, const PaperFile& paper, const std::string& where,
                      const Registry& registry) {
  if (!json.is_object()) refuse(where, "must be an object");
  for (const char* key : {"schema", "name", "description"}) {
    if (json.contains(key)) refuse(where, fmt::format("has no '{}': it is the file's", key));
  }
  Json sweep = {{"schema", "attnlab.sweep/1"}, {"name", paper.name}, {"description", paper.title}};
  sweep.update(json);
  read_sweep(sweep, where, registry);
  return sweep;
}

void check_claim_tables(const PaperFile& paper, const std::string& file) {
  for (const Claim& claim : paper.claims) {
    for (const std::string& id : claim.tables) {
      const bool is_table = std::ranges::any_of(
          paper.tables, [&](const PaperTable& table) { return table.published == id; });
      const bool is_headline = std::ranges::find(paper.headlines, id) != paper.headlines.end();
      if (!is_table && !is_headline) {
        refuse(file, fmt::format("claim {}: tables: '{}' is no table of this file", claim.id, id));
      }
    }
  }
}

}  // namespace

bool is_paper_name(const std::filesystem::path& path) {
  return path.extension() == ".json" && path.stem().extension() == kEnding;
}

std::vector<std::string> values_of(const PaperTable& table) {
  std::vector<std::string> values = {table.value};
  const auto add = [&](const std::vector<PaperEntry>& entries) {
    for (const PaperEntry& entry : entries) {
      const bool is_new = entry.rule && !entry.rule->value.empty() &&
                          std::ranges::find(values, entry.rule->value) == values.end();
      if (is_new) values.push_back(entry.rule->value);
    }
  };
  for (const PaperAxis* axis : {&table.rows, &table.columns}) {
    add(axis->entries);
    add(axis->beside);
  }
  return values;
}

bool has_times(const PaperFile& paper) {
  return std::ranges::any_of(paper.tables, [](const PaperTable& table) {
    return std::ranges::any_of(values_of(table), [](const std::string& value) {
      return find_field(value, "value").interval != nullptr;
    });
  });
}

PaperFile read_paper(const std::filesystem::path& path, const Registry& registry) {
  const std::string file = path.string();
  const Json json = read_json_file(path);
  check_keys(json,
             {"$schema", "schema", "name", "title", "budget", "sweep", "cpu", "quick", "tables",
              "headlines", "claims"},
             file);
  require_keys(json, {"schema", "name", "title", "budget", "sweep", "tables", "claims"}, file);
  if (json.contains("$schema")) read_string(json["$schema"], file + ": $schema");
  if (json["schema"] != kPaperSchema) {
    refuse(file, fmt::format("schema: {} is not \"{}\"", json["schema"].dump(), kPaperSchema));
  }
  PaperFile paper{.path = path,
                  .name = read_string(json["name"], file + ": name"),
                  .title = read_string(json["title"], file + ": title"),
                  .budget = read_budget(json["budget"], file + ": budget")};
  if (path.filename() != paper.name + kEnding + ".json") {
    refuse(file, fmt::format("name: '{}' is not the file's", paper.name));
  }
  paper.sweep = read_inner_sweep(json["sweep"], paper, file + ": sweep", registry);
  const auto cut = [&](const char* key, SweepCut& target) {
    if (!json.contains(key)) return false;
    const std::string where = fmt::format("{}: {}", file, key);
    target = read_cut(json[key], where, registry);
    read_sweep(cut_sweep(paper.sweep, target, where, registry), where, registry);
    return true;
  };
  paper.has_cpu = cut("cpu", paper.cpu);
  paper.has_quick = cut("quick", paper.quick);
  for (const char* key : {"tables", "claims"}) {
    if (!json[key].is_array()) refuse(fmt::format("{}: {}", file, key), "must be an array");
  }
  for (std::size_t i = 0; i < json["tables"].size(); ++i) {
    paper.tables.push_back(read_table(json["tables"][i], fmt::format("{}: tables[{}]", file, i)));
  }
  if (json.contains("headlines")) {
    paper.headlines = read_texts(json["headlines"], file + ": headlines");
  }
  for (std::size_t i = 0; i < json["claims"].size(); ++i) {
    paper.claims.push_back(read_claim(json["claims"][i], fmt::format("{}: claims[{}]", file, i)));
  }
  check_claim_tables(paper, file);
  return paper;
}

std::vector<PaperFile> read_papers(const std::filesystem::path& folder, const Registry& registry) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_paper_name(entry.path())) paths.push_back(entry.path());
  }
  if (paths.empty()) refuse(folder.string(), "holds no *.paper.json");
  std::ranges::sort(paths);
  std::vector<PaperFile> papers;
  std::map<std::string, std::string> owner;  // of a table or claim: the file
  for (const auto& path : paths) {
    papers.push_back(read_paper(path, registry));
    const auto own = [&](const std::string& what) {
      const auto [place, is_new] = owner.emplace(what, path.string());
      if (!is_new) refuse(path.string(), fmt::format("{} is in {} too", what, place->second));
    };
    for (const PaperTable& table : papers.back().tables) own("table " + table.published);
    for (const std::string& id : papers.back().headlines) own("table " + id);
    for (const Claim& claim : papers.back().claims) own("claim " + claim.id);
  }
  return papers;
}

}  // namespace attnlab
