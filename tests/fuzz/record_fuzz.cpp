#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "tests/fuzz/fuzz.h"

void attnlab::fuzz::read_input(const std::filesystem::path& file) {
  std::vector<std::string> warnings;
  const auto records = read_records(file, warnings);
  for (const auto& record : records) {
    require(record.is_object() && record.at("schema") == kRecordSchema, "a record has no schema");
  }
  // The records that can be read are those that stay when the torn end goes.
  RecordFile(file).repair();
  require(read_records(file, warnings) == records, "a repair has changed the records");
  require(RecordFile(file).repair().empty(), "a repaired file is repaired again");
}
