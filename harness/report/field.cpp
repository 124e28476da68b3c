#include "harness/report/field.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace attnlab {

RecordJson at(const RecordJson& record, const std::vector<const char*>& path) {
  const RecordJson* value = &record;
  for (const char* key : path) {
    if (!value->is_object() || !value->contains(key)) return nullptr;
    value = &(*value)[key];
  }
  return *value;
}

std::optional<double> number_at(const RecordJson& record, const std::vector<const char*>& path) {
  const RecordJson value = at(record, path);
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

std::optional<double> sum(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

}  // namespace attnlab
