// Chooses which fields become rows, columns and values, and which record stands in which cell.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/report/fields.h"
#include "harness/report/table_options.h"

namespace attnlab {

using FieldValues = std::vector<RecordJson>;  // one for each field of rows or cols

struct Pivot {
  std::vector<const Field*> rows;
  std::vector<const Field*> cols;
  std::vector<const Field*> values;
  std::vector<FieldValues> row_keys;  // in the order of the table
  std::vector<FieldValues> col_keys;
  std::map<std::pair<std::size_t, std::size_t>, const RecordJson*> cells;  // (row, column)
  std::size_t replaced = 0;  // records that a later one of the same point replaced
};

// Returns whether every record has the same value, and (if `value` is not null) which.
bool is_constant(const Field& field, const std::vector<RecordJson>& records);

// Fills what `options` leaves empty: rows are the problem's axes that vary; cols the kernel; values
// time, rate and speedup. A kernel among the cols is split by block or config if one of them was
// asked for several and neither is a row or column yet; what a kernel chose itself does not split
// it. The records must outlive the result. Throws UsageError where different points share a cell.
Pivot make_pivot(const std::vector<RecordJson>& records, const TableOptions& options);

// Returns the same cells with the fields of the columns moved behind those of the rows.
TableOptions columns_as_rows(const Pivot& pivot, const TableOptions& options);

// Returns the axes that tell the problems apart: seqlen, or seqlen_q and seqlen_k where these
// differ; heads_kv only where it differs from heads; no layout where each has its best.
std::vector<const Field*> problem_axes(const std::vector<RecordJson>& records);

}  // namespace attnlab
