// How a kernel runs: an ordered list of name = value, over the axes that the implementation
// declares.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnlab {

// One axis of an implementation's configuration.
struct ConfigAxis {
  const char* name;
  const char* summary;
  std::int64_t default_value;
  std::int64_t minimum;
  std::int64_t maximum;
  // What tuning tries instead of the default; empty: nothing.
  std::span<const std::int64_t> tried = {};
};

class Config {
 public:
  // Appends, or replaces the value of a name that is there.
  void set(std::string_view name, std::int64_t value);
  // Throws std::out_of_range with the name if it is absent.
  std::int64_t get(std::string_view name) const;
  bool contains(std::string_view name) const;
  const std::vector<std::pair<std::string, std::int64_t>>& values() const { return values_; }
  // "block_m=64,block_n=64"; "default" when empty.
  std::string to_string() const;
  bool operator==(const Config&) const = default;

 private:
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

}  // namespace attnlab
