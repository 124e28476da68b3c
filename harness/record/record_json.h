// Writes a record as JSON, "attnlab.record/1"; results/README.md documents its fields.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace attnlab {

nlohmann::ordered_json to_json(const Record& record);

// Identifies a point across files: id, kernel, backend, config, input kind, seed, cold or hot.
std::string record_key(const nlohmann::ordered_json& record);
// Returns the config as it was asked for: what the kernel chose is open again. Older records do not
// tell, and give the config that ran.
nlohmann::ordered_json asked_config(const nlohmann::ordered_json& record);
// Identifies the point by asked_config(): another version of a kernel may choose another tile.
std::string asked_key(const nlohmann::ordered_json& record);

// Names the device as far as times depend on it: of a GPU its name, of a CPU also the instruction
// set and the threads.
std::string device_key(const nlohmann::ordered_json& record);
// Names the device, and the state of caches and clocks: times of another one are other quantities.
std::string way_of_measuring(const nlohmann::ordered_json& record);

// Returns the type of the tensors; f32 where the record's is not known.
Dtype dtype_of(const nlohmann::ordered_json& record);

// Keeps the last of several records of one point on one device, or of one way of measuring it where
// `of` is way_of_measuring(); the order stays.
std::vector<nlohmann::ordered_json> last_of_each_point(
    const std::vector<nlohmann::ordered_json>& records,
    std::string (*of)(const nlohmann::ordered_json& record) = device_key);

}  // namespace attnlab
