// Reads a JSON Schema of the tree: whether a document fits it, and which parts the document uses.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace valijson {
class Schema;
}

namespace attnlab {

class JsonSchema {
 public:
  using Json = nlohmann::json;
  // Parts are names of properties and values of enumerations, each with its place in the schema.
  using Parts = std::set<std::string>;

  // Throws what the parsers throw where the file is no JSON Schema.
  explicit JsonSchema(const std::filesystem::path& file);
  ~JsonSchema();

  const Json& json() const { return json_; }

  // Returns why the document does not fit, a line for each reason; "" if it fits.
  std::string violation(const Json& document) const;

  // Returns what describes documents; conditions narrow them down and are left out.
  Parts parts() const;

  // Adds the parts that the document uses.
  void add_used(const Json& document, Parts& used) const;

 private:
  Json json_;
  std::unique_ptr<valijson::Schema> schema_;
};

// Calls `visit` with the place of every value of the document, its root left out.
void for_each_place(const nlohmann::json& document,
                    const std::function<void(const nlohmann::json::json_pointer&)>& visit);

// Expects the document to fit, and not to fit any more where a value becomes an object of another
// kind or an object gets one key more.
void expect_strict(const JsonSchema& schema, const nlohmann::json& document);

// Expects a sentence for every property, and objects that hold nothing but their properties.
void expect_described(const JsonSchema& schema);

}  // namespace attnlab
