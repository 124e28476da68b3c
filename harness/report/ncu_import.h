// Fills the block `profile` of records with what Nsight Compute said of their kernels, beside what
// attnlab's own counters, schedules and compiler said.
#pragma once

#include <string>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

// From this share on a value of ncu's differs from the other one. Times are never compared: ncu
// runs kernels one by one, several times each.
inline constexpr double kNcuTolerance = 0.02;

// Returns the records; those that ran kernels get their block. The launches of the report must be
// theirs: one launch of each such record, in the order of the records. `text` is the report's raw
// page as CSV, `file` its name. Throws UsageError, led by the file, where launches and records do
// not fit, or fit in two ways, and for all that read_ncu_report() refuses.
std::vector<RecordJson> import_ncu_report(const std::string& text, const std::string& file,
                                          std::vector<RecordJson> records);

// Prints what the block of each record says; what differs is marked.
std::string render_ncu_import(const std::vector<RecordJson>& records);

}  // namespace attnlab
