// Makes one set of records of several: of the shards of a sweep, or of runs that went on elsewhere.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

struct MergeInput {
  std::string file;
  std::vector<RecordJson> records;
};

// Names a record that a later one of the same point and device stands for.
struct Replaced {
  std::string key, file, timestamp;
  std::string kept_file, kept_timestamp;
};

struct Merged {
  std::vector<RecordJson> records;  // a point of a device once, in the order of first appearance
  std::vector<Replaced> replaced;
  std::size_t copies = 0;  // of records that are there, word by word
  // These are whole sentences.
  std::vector<std::string> disagreements;  // of records of one point, beyond noise
  std::vector<std::string> split_cases;    // whose kernels did not all take turns together
  std::vector<std::string> missing;        // what shards lack of their sweep
};

// Returns from which share of a record's time on a difference to one of another run counts.
using ThresholdOf = std::function<double(const RecordJson& record)>;

// Keeps of several records of a point, regime and device the latest by its time stamp; of equal
// ones the last. Throws nlohmann::json::exception for a record that lacks what every record has.
Merged merge_records(const std::vector<MergeInput>& inputs, const ThresholdOf& threshold_of);

// Puts the records in the place of a file, whole or not at all; makes its folder. Throws
// UsageError.
void write_records(const std::vector<RecordJson>& records, const std::filesystem::path& file);

// Says in words what became of the records; "" where nothing but copies was left out and nothing is
// missing.
std::string render_merge(const Merged& merged);

}  // namespace attnlab
