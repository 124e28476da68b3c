#include "harness/report/field.h"

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

}  // namespace attnlab
