// The options say what a table of records shows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/base/text_table.h"

namespace attnlab {

struct TableOptions {
  std::vector<std::string> rows;    // field names (see fields.h); empty: those that vary
  bool rows_in_order = false;       // as the records stand; else numbers ascend
  std::vector<std::string> cols;    // empty: kernel and config
  std::vector<std::string> values;  // empty: time_ms and tflops... the default comparison
  // These keep only records whose field has one of the values (in their exact text).
  std::vector<std::pair<std::string, std::vector<std::string>>> where;
  TableFormat format = TableFormat::table;
  std::string speedup_over;  // a kernel or peer; empty: naive, whose name no column says
  bool best_layout = false;  // only each competitor's faster layout, named beside its time
};

}  // namespace attnlab
