// Says what one kernel costs on one point, out of its own schedule, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/plan/sweep.h"

namespace attnlab {

// Needs in `point` what is known of the point so far: its reason, work and compulsory bytes.
nlohmann::ordered_json kernel_json(const Case& work, const Competitor& competitor,
                                   const Device& device, const nlohmann::ordered_json& point);

// Returns null where the denominator is not positive.
nlohmann::ordered_json ratio(double numerator, double denominator);

nlohmann::ordered_json counts_json(const TileCounts& counts);

// Returns reads, writes, their sum, the FLOPs of each byte, and reads and writes by operand.
nlohmann::ordered_json traffic_json(const Traffic& traffic, std::int64_t useful_flops);

// Returns why a kernel's schedule is not gone through, "" if it is.
std::string too_many_tiles(const Problem& problem, const Config& config);

}  // namespace attnlab
