#include "kernels/api/config.h"

#include <algorithm>
#include <stdexcept>

namespace attnlab {
namespace {

auto find(auto& values, std::string_view name) {
  return std::find_if(values.begin(), values.end(),
                      [name](const auto& value) { return value.first == name; });
}

}  // namespace

Config::Config(std::initializer_list<Value> values) {
  for (const auto& [name, value] : values) set(name, value);
}

void Config::set(std::string_view name, std::int64_t value) {
  const auto place = find(values_, name);
  if (place != values_.end()) {
    place->second = value;
  } else {
    values_.emplace_back(name, value);
  }
}

void Config::set_all(const Config& values) {
  for (const auto& [name, value] : values.values()) set(name, value);
}

std::int64_t Config::get(std::string_view name) const {
  const auto place = find(values_, name);
  if (place == values_.end()) throw std::out_of_range("config has no '" + std::string(name) + "'");
  return place->second;
}

bool Config::contains(std::string_view name) const { return find(values_, name) != values_.end(); }

std::string Config::to_string() const {
  if (values_.empty()) return "default";
  std::string text;
  for (const auto& [name, value] : values_) {
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(value);
  }
  return text;
}

}  // namespace attnlab
