// Says how a kernel runs: an ordered list of name = value, over the axes that the implementation
// declares. Two names mean the same in every kernel that has them, because sweeps and tables speak
// of both at once (`block`): block_m is the query rows of a tile, block_n its keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnlab {

// AxisRole tells a judge what an axis means, whatever it is called.
enum class AxisRole : std::uint8_t {
  none,
  tf32_products,  // 1: products of f32 round their factors to TF32
  promotes,       // 0: products of e4m3 stay in the tensor cores' sums, of 13 bits
  fixed_order,    // 1: a backward sums in a fixed order; 0: in another one at every launch
};

// ConfigAxis is one axis of an implementation's configuration. This is its only declaration: flags,
// sweep files, help texts, tuning and verification follow from it.
struct ConfigAxis {
  const char* name;
  const char* summary;
  std::int64_t default_value;
  std::int64_t minimum;
  std::int64_t maximum;
  // Tuning tries these instead of the default, and nothing where the list is empty.
  std::span<const std::int64_t> tried = {};
  AxisRole role = AxisRole::none;
};

class Config {
 public:
  using Value = std::pair<std::string_view, std::int64_t>;

  Config() = default;
  Config(std::initializer_list<Value> values);

  // Appends, or replaces the value of a name that is there.
  void set(std::string_view name, std::int64_t value);
  void set_all(const Config& values);
  // Throws std::out_of_range with the name if it is absent.
  std::int64_t get(std::string_view name) const;
  bool contains(std::string_view name) const;
  const std::vector<std::pair<std::string, std::int64_t>>& values() const { return values_; }
  // Returns "block_m=64,block_n=64"; "default" when empty.
  std::string to_string() const;
  bool operator==(const Config&) const = default;

 private:
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

}  // namespace attnlab
