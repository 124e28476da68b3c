// Tables rebuilt from records, and from nothing else. Only this file family formats numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attnlab {

enum class TableFormat { table, markdown, csv, json };

struct TableOptions {
  std::vector<std::string> rows;    // field names (see field_help()); empty: those that vary
  std::vector<std::string> cols;    // empty: kernel and config
  std::vector<std::string> values;  // empty: time_ms and tflops... the default comparison
  TableFormat format = TableFormat::table;
};

// Throws UsageError for an unknown field, naming the nearest.
std::string render_table(const std::vector<nlohmann::ordered_json>& records,
                         const TableOptions& options);

}  // namespace attnlab
