#include "harness/record/difference.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

namespace attnlab {

using Json = nlohmann::ordered_json;

std::string first_difference(const Json& was, const Json& is, const std::string& name) {
  if (!was.is_object() || !is.is_object()) {
    return was == is ? "" : fmt::format("{} was {} and is {} now", name, was.dump(), is.dump());
  }
  std::set<std::string> keys;
  for (const Json* side : {&was, &is}) {
    for (const auto& item : side->items()) keys.insert(item.key());
  }
  for (const std::string& key : keys) {
    std::string text = first_difference(was.value(key, Json()), is.value(key, Json()),
                                        fmt::format("{}.{}", name, key));
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace attnlab
