// Whether the values of a record can be: results/record.schema.json, which is built in, asked about
// one value at a time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attnlab {

// The first value that is of a wrong type or impossible, as `time.median_s: -1 is below 0`; "" if
// all can be. Keys that the schema does not know are of a later version, and keys may be missing,
// as in older ones; what the schema says of several values together is not asked.
std::string wrong_value(const nlohmann::ordered_json& record);

}  // namespace attnlab
