#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "harness/record.h"
#include "tests/fuzz/fuzz.h"

void attnlab::fuzz::read_input(const std::filesystem::path& file) {
  std::vector<std::string> warnings;
  for (const auto& record : read_records(file, warnings)) {
    require(record.is_object() && record.at("schema") == kRecordSchema, "a record has no schema");
  }
}
