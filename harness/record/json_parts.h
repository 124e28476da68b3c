// Declares what the parts of a record have in common as JSON.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/record/readings.h"
#include "harness/record/record.h"

namespace attnlab {

// Writes NaN and infinity as words: JSON has neither, and a silent null would hide a failure.
inline nlohmann::ordered_json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

template <class T, class Convert>
nlohmann::ordered_json optional(const std::optional<T>& value, Convert convert) {
  return value ? convert(*value) : nlohmann::ordered_json(nullptr);
}

inline nlohmann::ordered_json optional_number(const std::optional<double>& value) {
  return optional(value, number);
}

// Returns the share of a multiprocessor's cycles with a warp on it in which a tensor pipe works.
std::optional<double> tensor_active_percent(const HardwareCounts& counts);

nlohmann::ordered_json telemetry_json(const BlockTelemetry& telemetry);
nlohmann::ordered_json energy_json(const EnergyRecord& energy);
nlohmann::ordered_json timeline_json(const TimelineRecord& timeline);
nlohmann::ordered_json executed_json(const ExecutedKernel& kernel);
nlohmann::ordered_json evidence_json(const Record& record);  // `record` must have evidence
// Writes all counts but the bytes, which stand in `traffic`; null where nothing was counted.
nlohmann::ordered_json counters_json(const std::optional<Counted>& counted);
nlohmann::ordered_json cache_claim_json(const CacheClaim& claim);
nlohmann::ordered_json roof_json(const Roof& roof);

}  // namespace attnlab
