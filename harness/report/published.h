// Reads the tables as their sources print them: sweeps/paper/published/*.published.json.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attnlab {

// Holds a published table: its id, title, setting, columns, rows, units, source, note.
struct PublishedTable {
  std::string work;  // the paper, post or text that it is from
  nlohmann::ordered_json json;
};

// Maps ids to tables. Throws UsageError for a file that cannot be read, and for a double id.
using PublishedTables = std::map<std::string, PublishedTable>;
PublishedTables read_published(const std::filesystem::path& folder);

// Finds a table. Throws UsageError, led by `where`, with the nearest id.
const PublishedTable& find_published(const PublishedTables& tables, const std::string& id,
                                     const std::string& where);

// Returns the work and the place in it: "A paper; Table 9, page 23".
std::string source_of(const PublishedTable& table);

// Returns "A100 40GB", or "no GPU named".
std::string published_gpu(const PublishedTable& table);

}  // namespace attnlab
