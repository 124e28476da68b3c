#include "harness/record/record_values.h"

#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "record_schema.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Matches a POSIX pattern: regexec() takes no stack, however long the text.
bool matches(const std::string& pattern, const std::string& text) {
  struct Free {
    void operator()(regex_t* expression) const {
      regfree(expression);
      delete expression;
    }
  };
  static std::map<std::string, std::unique_ptr<regex_t, Free>> compiled;
  auto& expression = compiled[pattern];
  if (expression == nullptr) {
    expression.reset(new regex_t{});
    regcomp(expression.get(), pattern.c_str(), REG_EXTENDED | REG_NOSUB);
  }
  return regexec(expression.get(), text.c_str(), 0, nullptr, 0) == 0;
}

// Returns the value of a key; null where there is none.
const Json& member(const Json& object, std::string_view key) {
  static const Json kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  return type == value.type_name();
}

// Returns a < b, also where only one of them fits an int64_t.
bool is_less(const Json& a, const Json& b) {
  if (a.is_number_unsigned() && b.is_number_unsigned()) {
    return a.get<std::uint64_t>() < b.get<std::uint64_t>();
  }
  return a.get<double>() < b.get<double>();
}

// Returns the value as a short text.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 40;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

class Schema {
 public:
  explicit Schema(Json json) : json_(std::move(json)) {}

  std::string wrong(const Json& record) const { return wrong(json_, record, ""); }

 private:
  std::string wrong(const Json& rule, const Json& value, const std::string& place) const {
    if (const auto ref = rule.find("$ref"); ref != rule.end()) {
      return wrong(target(*ref), value, place);
    }
    const auto fail = [&](const std::string& why) {
      return fmt::format("{}: {} {}", place, shown(value), why);
    };
    if (!allows_type(rule, value)) return fail("is not " + wanted(rule));
    if (const auto any = rule.find("anyOf"); any != rule.end()) {
      // The alternative of the value's own type gives the most useful message.
      for (const Json& kind : *any) {
        if (allows_type(kind, value)) return wrong(kind, value, place);
      }
    }
    for (const Json& part : member(rule, "allOf")) {
      if (std::string why = wrong(part, value, place); !why.empty()) return why;
    }
    if (std::string why = out_of_range(rule, value); !why.empty()) return fail(why);
    if (value.is_object()) return wrong_member(rule, value, place);
    if (value.is_array() && rule.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        std::string why = wrong(rule["items"], value[i], fmt::format("{}[{}]", place, i));
        if (!why.empty()) return why;
      }
    }
    return "";
  }

  std::string wrong_member(const Json& rule, const Json& object, const std::string& place) const {
    const Json& known = member(rule, "properties");
    const Json& others = member(rule, "additionalProperties");
    for (const auto& [key, value] : object.items()) {
      const Json& of_key = member(known, key);
      const Json& of_value = of_key.is_null() ? others : of_key;
      if (!of_value.is_object()) continue;  // of a later version
      const std::string inside = place.empty() ? key : fmt::format("{}.{}", place, key);
      std::string why = wrong(of_value, value, inside);
      if (!why.empty()) return why;
    }
    return "";
  }

  const Json& target(const Json& ref) const {
    return json_.at(Json::json_pointer(ref.get<std::string>().substr(1)));
  }

  // Returns whether the rule allows the value's type, or names no types.
  bool allows_type(const Json& rule, const Json& value) const {
    if (rule.contains("$ref")) return allows_type(target(rule["$ref"]), value);
    if (const auto any = rule.find("anyOf"); any != rule.end()) {
      return std::ranges::any_of(*any, [&](const Json& kind) { return allows_type(kind, value); });
    }
    const auto type = rule.find("type");
    if (type == rule.end()) return true;
    if (type->is_string()) return is_of_type(value, *type);
    return std::ranges::any_of(*type, [&](const Json& one) { return is_of_type(value, one); });
  }

  // Returns the types of the rule in words: "null or object".
  std::string wanted(const Json& rule) const {
    if (rule.contains("$ref")) return wanted(target(rule["$ref"]));
    std::string words;
    const auto add = [&](const std::string& word) {
      words += (words.empty() ? "" : " or ") + word;
    };
    for (const Json& kind : member(rule, "anyOf")) add(wanted(kind));
    if (rule.contains("type")) {
      const Json& type = rule["type"];
      for (const Json& one : type.is_array() ? type : Json::array({type})) add(one);
    }
    return words;
  }

  static std::string out_of_range(const Json& rule, const Json& value) {
    const auto has = [&](const char* key) { return rule.contains(key); };
    if (has("const") && value != rule["const"]) return "is not " + shown(rule["const"]);
    if (has("enum") && std::ranges::find(rule["enum"], value) == rule["enum"].end()) {
      return "is none of " + rule["enum"].dump();
    }
    if (value.is_number()) {
      if (has("minimum") && is_less(value, rule["minimum"])) {
        return "is below " + rule["minimum"].dump();
      }
      if (has("maximum") && is_less(rule["maximum"], value)) {
        return "is above " + rule["maximum"].dump();
      }
      if (has("exclusiveMinimum") && !is_less(rule["exclusiveMinimum"], value)) {
        return "is not above " + rule["exclusiveMinimum"].dump();
      }
      if (has("exclusiveMaximum") && !is_less(value, rule["exclusiveMaximum"])) {
        return "is not below " + rule["exclusiveMaximum"].dump();
      }
    }
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      if (has("minLength") && text.empty()) return "is empty";
      if (has("pattern") && !matches(rule["pattern"], text)) {
        return "is not of the form " + rule["pattern"].get<std::string>();
      }
    }
    if (value.is_array()) {
      if (has("minItems") && value.size() < rule["minItems"]) return "has too few items";
      if (has("maxItems") && value.size() > rule["maxItems"]) return "has too many items";
    }
    return "";
  }

  Json json_;
};

// Returns what is wrong with lists of lengths: no schema can say that each needs `batch` entries.
std::string wrong_lengths(const Json& record) {
  const Json& problem = member(record, "problem");
  const Json& batch = member(problem, "batch");
  for (const char* side : {"queries", "keys"}) {
    const Json& list = member(member(problem, "lengths"), side);
    if (list.is_null() || batch.is_null() || batch == list.size()) continue;
    return fmt::format("problem.lengths.{}: {} has {} entries, but problem.batch is {}", side,
                       shown(list), list.size(), batch.dump());
  }
  return "";
}

}  // namespace

std::string wrong_value(const Json& record) {
  static const Schema schema(Json::parse(kRecordSchemaText));
  std::string why = schema.wrong(record);
  return why.empty() ? wrong_lengths(record) : why;
}

}  // namespace attnlab
