// Shows what a table cannot hold in its cells: for each point what was asked for and which kernels
// really ran, from records alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/report/table_options.h"

namespace attnlab {

// Shows, of the last record of each point that passes options.where, kernel, config, whether it ran
// as asked, was verified and timed, and the kernels with their shapes. csv and json have a line or
// object a kernel that ran, or one with empty places where none was seen. Throws UsageError for an
// unknown field and where no record is left.
std::string render_evidence(const std::vector<nlohmann::ordered_json>& records,
                            const TableOptions& options);

}  // namespace attnlab
