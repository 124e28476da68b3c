// What attnlab run --tune prints: of each problem the configs that were tried, the fastest first.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace attnlab {

// A table for each problem, in the order of the records: what tells its configs apart, time, rate,
// registers, spills and shared memory. Those that are not ok come last.
std::string render_tuning(const std::vector<nlohmann::ordered_json>& records);

}  // namespace attnlab
