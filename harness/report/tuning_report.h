// What attnlab run --tune prints: of each problem the configs that were tried, the fastest first.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace attnlab {

// A table for each problem, in the order of the records: what tells its configs apart, time, rate,
// and on a GPU registers, spills and shared memory, on a CPU requested bytes and workspace. The
// tile with the fastest config comes first, with its other configs behind it.
std::string render_tuning(const std::vector<nlohmann::ordered_json>& records);

// Those that say how a tuning run went: a config that was tried and spills registers is no failure.
std::vector<nlohmann::ordered_json> without_spilling(
    const std::vector<nlohmann::ordered_json>& records);

}  // namespace attnlab
