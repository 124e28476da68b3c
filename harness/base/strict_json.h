// JSON from files that anybody may have written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attnlab {

// Throws UsageError, led by `where`, for a key that an object holds twice (the parser alone would
// keep one of them and say nothing), for nesting deeper than `deepest` levels (trees are copied by
// recursion) and for a zero byte (the parser takes it for the end). Syntax errors are the library's
// own exceptions.
nlohmann::ordered_json parse_strict_json(const std::string& text, int deepest,
                                         const std::string& where);

}  // namespace attnlab
