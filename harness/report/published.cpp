#include "harness/report/published.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/strict_json.h"
#include "harness/base/suggest.h"

namespace attnlab {

namespace {

using Json = nlohmann::ordered_json;

void check_text(const Json& json, const char* key, const std::string& where) {
  if (json.contains(key)) read_string(json[key], fmt::format("{}.{}", where, key));
}

bool is_scalar(const Json& value) { return !value.is_structured(); }

// A setting's value is a scalar, or several numbers.
void check_setting(const Json& setting, const std::string& where) {
  check_keys(setting,
             {"gpu", "dtype", "batch", "heads", "head_dim", "seqlen", "causal", "dropout", "mask",
              "pass", "flop_formula", "protocol"},
             where);
  for (const auto& [key, value] : setting.items()) {
    const bool is_right =
        key == "gpu"
            ? value.is_string() || value.is_null()
            : is_scalar(value) ||
                  (value.is_array() &&
                   std::ranges::all_of(value, [](const Json& one) { return one.is_number(); }));
    if (!is_right) refuse(fmt::format("{}.{}", where, key), "is no value of a setting");
  }
}

// Checks that rows have values of the table's columns, and of no others.
void check_rows(const Json& rows, const Json& columns, const std::string& where) {
  if (!rows.is_array()) refuse(where, "must be an array of objects COLUMN -> value");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    check_keys(rows[i], columns.get<std::vector<std::string>>(), place);
    for (const auto& [column, value] : rows[i].items()) {
      if (!is_scalar(value)) refuse(fmt::format("{}.{}", place, column), "must be one value");
    }
  }
}

void check_columns(const Json& columns, const std::string& where) {
  if (!columns.is_array() || columns.empty()) refuse(where, "must be an array of texts");
  for (const Json& column : columns) read_string(column, where);
}

void check_table(const Json& table, const std::string& where) {
  check_keys(table,
             {"id", "title", "what", "setting", "columns", "rows", "rows_precise", "units",
              "source", "confidence", "reliability", "note"},
             where);
  require_keys(table, {"id", "title", "setting", "columns", "rows", "units", "source"}, where);
  const std::string id = read_string(table["id"], where + ".id");
  if (id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") != std::string::npos) {
    refuse(where + ".id", fmt::format("'{}': use small letters, digits, '-', '.'", id));
  }
  const std::string place = fmt::format("{} ({})", where, id);
  for (const char* key : {"title", "what", "units", "confidence", "reliability"}) {
    check_text(table, key, place);
  }
  if (table.contains("note") && !table["note"].is_string())
    refuse(place + ".note", "must be a text");
  check_setting(table["setting"], place + ".setting");
  check_columns(table["columns"], place + ".columns");
  check_rows(table["rows"], table["columns"], place + ".rows");
  if (table.contains("rows_precise")) {
    check_rows(table["rows_precise"], table["columns"], place + ".rows_precise");
    if (table["rows_precise"].size() != table["rows"].size()) {
      refuse(place + ".rows_precise", "must have as many rows as rows");
    }
  }
  check_keys(table["source"], {"kind", "where"}, place + ".source");
  require_keys(table["source"], {"where"}, place + ".source");
  for (const char* key : {"kind", "where"}) check_text(table["source"], key, place + ".source");
}

// Checks words about the source: nothing else reads them.
void check_words(const Json& file, const std::string& where) {
  for (const char* key : {"$schema", "work", "citation", "conventions", "consistency"}) {
    check_text(file, key, where);
  }
  for (const char* key : {"missing", "errata"}) {
    const std::string place = fmt::format("{}: {}", where, key);
    if (!file.contains(key)) continue;
    if (!file[key].is_array()) refuse(place, "must be an array of texts");
    for (const Json& text : file[key]) read_string(text, place);
  }
  if (!file.contains("formulas")) return;
  if (!file["formulas"].is_object()) refuse(where + ": formulas", "must be an object of texts");
  for (const auto& [name, text] : file["formulas"].items()) {
    read_string(text, fmt::format("{}: formulas.{}", where, name));
  }
}

}  // namespace

PublishedTables read_published(const std::filesystem::path& folder) {
  PublishedTables tables;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".json" || path.stem().extension() != ".published") continue;
    const std::string file = path.string();
    const Json json = read_json_file(path);
    check_keys(json,
               {"$schema", "work", "citation", "conventions", "formulas", "consistency", "tables",
                "missing", "errata"},
               file);
    require_keys(json, {"work", "tables"}, file);
    check_words(json, file);
    if (!json["tables"].is_array()) refuse(file + ": tables", "must be an array");
    for (std::size_t i = 0; i < json["tables"].size(); ++i) {
      const Json& table = json["tables"][i];
      check_table(table, fmt::format("{}: tables[{}]", file, i));
      const std::string id = table["id"];
      const bool is_new = tables.emplace(id, PublishedTable{json["work"], table}).second;
      if (!is_new) refuse(file, fmt::format("table {} is there twice", id));
    }
  }
  if (tables.empty()) refuse(folder.string(), "holds no *.published.json with tables");
  return tables;
}

const PublishedTable& find_published(const PublishedTables& tables, const std::string& id,
                                     const std::string& where) {
  const auto found = tables.find(id);
  if (found != tables.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& table : tables) known.push_back(table.first);
  refuse(where, fmt::format("there is no published table '{}'{}", id, suggestion(id, known)));
}

std::string source_of(const PublishedTable& table) {
  return fmt::format("{}; {}", table.work, table.json["source"]["where"].get<std::string>());
}

std::string published_gpu(const PublishedTable& table) {
  const auto& gpu = table.json["setting"]["gpu"];
  return gpu.is_string() ? gpu.get<std::string>() : "no GPU named";
}

}  // namespace attnlab
