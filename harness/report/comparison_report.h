// Renders what a comparison found, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "harness/report/comparison.h"

namespace attnlab {

// table and markdown end with the verdict; csv has a line for each point, also those without a
// partner; json has everything.
std::string render_comparison(const Comparison& comparison, const CompareOptions& options,
                              TableFormat format);

}  // namespace attnlab
