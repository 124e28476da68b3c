// Tables rebuilt from records, and from nothing else. Only this file family formats numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace attnlab {

enum class TableFormat { table, markdown, csv, json };

struct TableOptions {
  std::vector<std::string> rows;    // field names (see field_help()); empty: those that vary
  bool rows_in_order = false;       // as the records stand; else numbers ascend
  std::vector<std::string> cols;    // empty: kernel and config
  std::vector<std::string> values;  // empty: time_ms and tflops... the default comparison
  // Only records whose field has one of the values (in their exact text).
  std::vector<std::pair<std::string, std::vector<std::string>>> where;
  TableFormat format = TableFormat::table;
  std::string speedup_over;  // a kernel or peer; empty: naive, whose name no column says
};

// The fields that rows, cols, values and where may name.
struct FieldHelp {
  const char* name;
  const char* unit;
  const char* summary;
};
const std::vector<FieldHelp>& field_help();

// Throws UsageError, naming --speedup-over, for a base that is none of the kernels and peers.
void check_speedup_base(const std::string& base, const std::vector<std::string>& kernels);

// Without rows and cols, csv and json list one line or object for each record, numbers unrounded.
// Of several records of one point (record_key() and the fields of rows and cols alike) the last
// wins. Throws UsageError for an unknown field, naming the nearest, and for fields that would put
// different points into one cell.
std::string render_table(const std::vector<nlohmann::ordered_json>& records,
                         const TableOptions& options);

}  // namespace attnlab
