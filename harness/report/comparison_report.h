// Renders what a comparison found, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "harness/report/comparison.h"

namespace attnlab {

// table and markdown end with the verdict; csv has a line for each point, also those without a
// partner; json has everything. `code` is exit_code(), or what a caller that knows more makes of
// it.
std::string render_comparison(const Comparison& comparison, const CompareOptions& options,
                              TableFormat format, int code);
// Renders it with the comparison's own exit_code().
std::string render_comparison(const Comparison& comparison, const CompareOptions& options,
                              TableFormat format);

// Returns "same or faster", "worse", "ambiguous", ...: what an exit code says.
std::string verdict_of(int code, const CompareOptions& options);

}  // namespace attnlab
