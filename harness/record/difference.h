// Says in words where two JSON values differ.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attnlab {

// Returns the first value that differs, objects key by key, as "protocol.max_rounds was 3 and is 9
// now"; "" if none does.
std::string first_difference(const nlohmann::ordered_json& was, const nlohmann::ordered_json& is,
                             const std::string& name);

}  // namespace attnlab
