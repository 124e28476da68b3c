// Reads JSON from files that anybody may have written.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/base/errors.h"

namespace attnlab {

// Throws UsageError, led by `where`, for a key that an object holds twice (the parser alone would
// keep one of them and say nothing), for nesting deeper than `deepest` levels (trees are copied by
// recursion) and for a zero byte (the parser takes it for the end). Syntax errors are the library's
// own exceptions.
nlohmann::ordered_json parse_strict_json(const std::string& text, int deepest,
                                         const std::string& where);

// Parses the text of a file that people write as parse_strict_json() does, but a syntax error is a
// UsageError, too, which names line and column.
nlohmann::ordered_json parse_json_text(const std::string& text, const std::string& file);
// Reads a file for parse_json_text(). Throws UsageError where it cannot be read.
nlohmann::ordered_json read_json_file(const std::filesystem::path& file);

// Throws UsageError, led by `where` (file and key), as all functions below do.
[[noreturn]] void refuse(const std::string& where, const std::string& why);
// Refuses what is no object, and keys of other names, with the nearest known one.
void check_keys(const nlohmann::ordered_json& object, const std::vector<std::string>& known,
                const std::string& where);
// Refuses an object that lacks one of the keys.
void require_keys(const nlohmann::ordered_json& object, const std::vector<std::string>& keys,
                  const std::string& where);
// Returns a string, and refuses an empty one.
std::string read_string(const nlohmann::ordered_json& value, const std::string& where);
// Returns a number, and refuses one outside of [minimum, maximum], or with a fraction where T has
// none.
template <class T>
T read_number(const nlohmann::ordered_json& value, T minimum, T maximum, const std::string& where) {
  const bool right_type = std::is_integral_v<T> ? value.is_number_integer() : value.is_number();
  if (!right_type) {
    refuse(where, std::is_integral_v<T> ? "must be a whole number" : "must be a number");
  }
  const double number = value.get<double>();
  if (!(number >= static_cast<double>(minimum) && number <= static_cast<double>(maximum))) {
    refuse(where, fmt::format("{} is outside [{}, {}]", value.dump(), minimum, maximum));
  }
  return value.get<T>();
}

}  // namespace attnlab
