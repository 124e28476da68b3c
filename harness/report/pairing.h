// Finds which records of two sets are of the same point.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

struct Pair {
  std::string key;  // of the base
  const RecordJson* base = nullptr;
  const RecordJson* now = nullptr;
};

// Names a point that has no partner, or is on one side several times.
struct Unpaired {
  std::string key;
  std::string status;  // of the records: "ok", "ok, failed"
};

struct Pairing {
  std::vector<Pair> pairs;
  std::vector<Unpaired> missing;     // from the new side
  std::vector<Unpaired> extra;       // that the base has not
  std::vector<Unpaired> duplicates;  // that one side has several times
};

// Pairs points by problem, kernel, config, inputs, seed, cache and regime; of a kernel that was
// left to choose its config also where it chose another. Of a point that was skipped or unsupported
// and then ran, as with --resume, the run counts. The records must outlive the result. Throws
// UsageError for a record without a key.
Pairing pair_records(const std::vector<RecordJson>& base, const std::vector<RecordJson>& now);

}  // namespace attnlab
