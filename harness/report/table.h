// Builds tables from records and nothing else. Only this file family formats numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/report/table_options.h"

namespace attnlab {

// Throws UsageError, naming --speedup-over, for a base that is none of the kernels and peers.
void check_speedup_base(const std::string& base, const std::vector<std::string>& kernels);

// Renders a table. Without rows and cols, csv and json have one line or object for each record,
// numbers unrounded. Of several records of one point (record_key() and the fields of rows and cols
// alike) the last wins. Throws UsageError for an unknown field, naming the nearest, and for fields
// that would put different points into one cell.
std::string render_table(const std::vector<nlohmann::ordered_json>& records,
                         const TableOptions& options);

}  // namespace attnlab
