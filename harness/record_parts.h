// The objects of a record that come from instruments (results/README.md has their fields).
#pragma once

#include <nlohmann/json.hpp>

#include "harness/record.h"

namespace attnlab {

// JSON has no NaN and no infinity, and a silent null would hide a failure: those are text.
nlohmann::ordered_json number_json(double value);
nlohmann::ordered_json number_json(const std::optional<double>& value);

nlohmann::ordered_json executed_json(const ExecutedKernel& kernel);
// Null of points that did not run on a GPU.
nlohmann::ordered_json evidence_json(const Record& record);
// Bytes stand in `traffic`, all else that was counted here.
nlohmann::ordered_json counters_json(const std::optional<Counted>& counted);
nlohmann::ordered_json cache_claim_json(const std::optional<CacheClaim>& claim);

}  // namespace attnlab
