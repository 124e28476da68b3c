#include "harness/report/published.h"

#include <fmt/format.h>

#include "harness/base/strict_json.h"
#include "harness/base/suggest.h"

namespace attnlab {

PublishedTables read_published(const std::filesystem::path& folder) {
  PublishedTables tables;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".json" || path.stem().extension() != ".published") continue;
    const nlohmann::ordered_json file = read_json_file(path);
    require_keys(file, {"work", "tables"}, path.string());
    for (const auto& table : file["tables"]) {
      require_keys(table, {"id", "title", "setting", "columns", "rows", "units", "source"},
                   path.string());
      const std::string id = read_string(table["id"], path.string() + ": id");
      const bool is_new = tables.emplace(id, PublishedTable{file["work"], table}).second;
      if (!is_new) refuse(path.string(), fmt::format("table {} is there twice", id));
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

std::string published_gpu(const PublishedTable& table) {
  const auto& gpu = table.json["setting"]["gpu"];
  return gpu.is_string() ? gpu.get<std::string>() : "no GPU named";
}

}  // namespace attnlab
