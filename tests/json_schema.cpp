#include "tests/json_schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace attnlab {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

// Collects the parts of `schema`: all of them if `value` is null, else those that it uses.
void collect(const Json& root, const Json& schema, const std::string& at, const Json* value,
             JsonSchema::Parts& parts) {
  if (schema.contains("$ref")) {
    const std::string reference = schema["$ref"];  // "#/definitions/NAME"
    const Json::json_pointer target(reference.substr(1));
    return collect(root, root.at(target), target.back(), value, parts);
  }
  const auto at_key = [&](const std::string& key) {
    return value != nullptr && value->is_object() && value->contains(key) ? &(*value)[key]
                                                                          : nullptr;
  };
  for (const Json& choice : schema.value("enum", Json::array())) {
    if (value == nullptr || *value == choice) parts.insert(at + " = " + choice.dump());
  }
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, part] : properties.items()) {
    if (value != nullptr && at_key(key) == nullptr) continue;
    const std::string place = fmt::format("{}.{}", at, key);
    parts.insert(place);
    collect(root, part, place, at_key(key), parts);
  }
  if (schema.contains("propertyNames")) {
    for (const Json& key : schema["propertyNames"].value("enum", Json::array())) {
      if (value == nullptr || at_key(key) != nullptr) parts.insert(at + "." + key.dump());
    }
  }
  for (const char* key : {"items", "additionalProperties"}) {
    if (!schema.contains(key) || !schema[key].is_object()) continue;
    if (value == nullptr) collect(root, schema[key], at + "[]", nullptr, parts);
    if (value == nullptr || !value->is_structured()) continue;
    for (const Json& item : *value) collect(root, schema[key], at + "[]", &item, parts);
  }
  for (const char* key : {"anyOf", "allOf"}) {
    for (const Json& part : schema.value(key, Json::array())) {
      if (!part.contains("if")) collect(root, part, at, value, parts);
    }
  }
}

void visit_places(const Json& document, const Json::json_pointer& at,
                  const std::function<void(const Json::json_pointer&)>& visit) {
  if (!document.is_structured()) return;
  for (const auto& [key, value] : document.items()) {
    const auto place = document.is_array() ? at / std::stoul(key) : at / key;
    visit(place);
    visit_places(value, place, visit);
  }
}

}  // namespace

JsonSchema::JsonSchema(const std::filesystem::path& file)
    : json_(Json::parse(std::ifstream(file))), schema_(std::make_unique<valijson::Schema>()) {
  // Another schema that a $ref names lies beside this one.
  const auto fetch = [&](const std::string& uri) {
    return new Json(Json::parse(std::ifstream(file.parent_path() / uri)));
  };
  const auto free = [](const Json* json) { delete json; };
  valijson::SchemaParser().populateSchema(Adapter(json_), *schema_, fetch, free);
}

JsonSchema::~JsonSchema() = default;

std::string JsonSchema::violation(const Json& document) const {
  valijson::ValidationResults results;
  if (valijson::Validator().validate(*schema_, Adapter(document), &results)) return "";
  std::string text = "does not fit";
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    text += "\n  ";
    for (const std::string& step : error.context) text += step;  // "<root>[time][n]"
    text += ": " + error.description;
  }
  return text;
}

JsonSchema::Parts JsonSchema::parts() const {
  Parts result;
  collect(json_, json_, "", nullptr, result);
  return result;
}

void JsonSchema::add_used(const Json& document, Parts& used) const {
  collect(json_, json_, "", &document, used);
}

void for_each_place(const Json& document,
                    const std::function<void(const Json::json_pointer&)>& visit) {
  visit_places(document, Json::json_pointer(), visit);
}

void expect_strict(const JsonSchema& schema, const Json& document) {
  ASSERT_EQ(schema.violation(document), "");
  for_each_place(document, [&](const Json::json_pointer& place) {
    Json spoiled = document;
    spoiled[place] = {{"No such key!", false}};
    EXPECT_NE(schema.violation(spoiled), "") << place << " is an object of another kind";
    if (!document[place].is_object()) return;
    spoiled = document;
    spoiled[place]["No such key!"] = false;
    EXPECT_NE(schema.violation(spoiled), "") << place << " has a key too many";
  });
}

void expect_described(const JsonSchema& schema) {
  const auto expect_part = [](const std::string& name, const Json& part) {
    ASSERT_TRUE(part.contains("properties")) << name;
    EXPECT_EQ(part.value("additionalProperties", Json()), false) << name;
    for (const auto& [key, property] : part["properties"].items()) {
      const std::string text = property.value("description", "");
      EXPECT_GT(text.size(), 5u) << name << "." << key;
      EXPECT_TRUE(text.ends_with('.')) << name << "." << key << ": " << text;
    }
  };
  expect_part("root", schema.json());
  for (const auto& [name, part] : schema.json()["definitions"].items()) {
    if (part.value("type", Json()) == "object") expect_part(name, part);
  }
}

}  // namespace attnlab
