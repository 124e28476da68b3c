#include "harness/base/strict_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "harness/base/errors.h"

namespace attnlab {

nlohmann::ordered_json parse_strict_json(const std::string& text, int deepest,
                                         const std::string& where) {
  using Json = nlohmann::ordered_json;
  const auto fail = [&](const std::string& why) {
    throw UsageError(fmt::format("{}: {}", where, why));
  };
  if (text.find('\0') != std::string::npos) fail("not JSON: holds a zero byte");
  std::vector<std::set<std::string>> open_objects;
  const auto refuse = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > deepest) fail(fmt::format("is nested deeper than {} levels", deepest));
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      const bool is_new = open_objects.back().insert(key).second;
      if (!is_new) fail(fmt::format("key '{}' is given twice", key));
    }
    return true;
  };
  return Json::parse(text, refuse);
}

}  // namespace attnlab
