// Checks whether the values of a record are possible: results/record.schema.json, which is built
// in, is asked about one value at a time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attnlab {

// Returns the first value of a wrong type or an impossible one, as `time.median_s: -1 is below 0`;
// "" if there is none. Unknown keys are of a later version, and keys may be missing, as in older
// ones; what the schema says of several values together is not checked.
std::string wrong_value(const nlohmann::ordered_json& record);

}  // namespace attnlab
