#include "harness/base/strict_json.h"

#include <algorithm>
#include <set>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/base/text_file.h"

namespace attnlab {
namespace {

// Returns "line 3, column 10" of the byte that the parser read last.
std::string place_of(const std::string& text, std::size_t bytes_read) {
  const std::size_t last = std::min(bytes_read, text.size() + 1);
  const std::string before = text.substr(0, last == 0 ? 0 : last - 1);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // 0 on the first line
  return fmt::format("line {}, column {}", lines + 1, before.size() - line_start + 1);
}

}  // namespace

void refuse(const std::string& where, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", where, why));
}

nlohmann::ordered_json parse_strict_json(const std::string& text, int deepest,
                                         const std::string& where) {
  using Json = nlohmann::ordered_json;
  if (text.find('\0') != std::string::npos) refuse(where, "not JSON: holds a zero byte");
  std::vector<std::set<std::string>> open_objects;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > deepest) refuse(where, fmt::format("is nested deeper than {} levels", deepest));
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      const bool is_new = open_objects.back().insert(key).second;
      if (!is_new) refuse(where, fmt::format("key '{}' is given twice", key));
    }
    return true;
  };
  return Json::parse(text, check);
}

nlohmann::ordered_json parse_json_text(const std::string& text, const std::string& file) {
  constexpr int kDeepest = 16;
  using Json = nlohmann::ordered_json;
  try {
    return parse_strict_json(text, kDeepest, file);
  } catch (const Json::parse_error& error) {  // "[...] parse error at line 3, column 0: why"
    const std::string what = error.what();
    const std::size_t why = what.find(": ");
    refuse(file, fmt::format("not JSON: {}: {}", place_of(text, error.byte),
                             why == std::string::npos ? what : what.substr(why + 2)));
  } catch (const Json::exception& error) {  // a number that is too large
    refuse(file, fmt::format("not JSON: {}", error.what()));
  }
}

nlohmann::ordered_json read_json_file(const std::filesystem::path& file) {
  return parse_json_text(read_text(file), file.string());
}

void check_keys(const nlohmann::ordered_json& object, const std::vector<std::string>& known,
                const std::string& where) {
  if (!object.is_object()) refuse(where, "must be an object");
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      refuse(where, fmt::format("unknown key '{}'{}", key, suggestion(key, known)));
    }
  }
}

void require_keys(const nlohmann::ordered_json& object, const std::vector<std::string>& keys,
                  const std::string& where) {
  for (const std::string& key : keys) {
    if (!object.contains(key)) refuse(where, fmt::format("key '{}' is missing", key));
  }
}

std::string read_string(const nlohmann::ordered_json& value, const std::string& where) {
  if (!value.is_string()) refuse(where, "must be a string");
  if (value.get<std::string>().empty()) refuse(where, "must not be empty");
  return value;
}

}  // namespace attnlab
