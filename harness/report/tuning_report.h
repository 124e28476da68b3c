// Renders what attnlab run --tune prints: the configs tried on each problem, the fastest first.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace attnlab {

// Renders a table for each problem, in the order of the records: what tells its configs apart,
// time, rate, and on a GPU registers, spills and shared memory, on a CPU requested bytes and
// workspace. The tile with the fastest config comes first, with its other configs behind it.
std::string render_tuning(const std::vector<nlohmann::ordered_json>& records);

// Keeps records that say how a tuning run went: a tried config that spills is no failure.
std::vector<nlohmann::ordered_json> without_spilling(
    const std::vector<nlohmann::ordered_json>& records);

}  // namespace attnlab
