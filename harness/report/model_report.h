// Makes attnlab model's answer: one JSON object with every number, and texts from it alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/plan/gpus.h"
#include "harness/plan/sweep.h"
#include "harness/report/table.h"

namespace attnlab {

inline constexpr const char* kModelSchema = "attnlab.model/1";

// Returns the cost of every case on every competitor, as it would run on `device`, which need not
// be here (device_of() of a GPU), and the bounds on every GPU. Names end with their unit; null is
// "no source" or "does not exist". A problem or a kernel that cannot be counted holds its reason.
// Runs no kernel. Throws UsageError if no problem can be counted.
nlohmann::ordered_json make_model(const std::vector<Case>& cases, const Device& device,
                                  const std::vector<const Gpu*>& gpus);

// Renders one point as a report in sections. csv, and several points, give a table with a row for
// each kernel of each point; json is the model itself.
std::string render_model(const nlohmann::ordered_json& model, TableFormat format);

}  // namespace attnlab
