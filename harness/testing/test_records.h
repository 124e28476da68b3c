// Gives tests of tables the records of tests/data, and values of them.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "harness/record/record_file.h"
#include "harness/report/fields.h"
#include "tests/paths.h"

namespace attnlab {

using Records = std::vector<RecordJson>;

// Reads 16 points: naive, v2 with two tiles and v3 (which does not exist), two masks and lengths.
inline Records small() {
  std::vector<std::string> warnings;
  return read_records(in_tree("tests/data/small.jsonl"), warnings);
}

// Reads three passes over given lengths (naive, v2 deterministic or not, minimal, which has no
// backward), and a block mask (v1 with several configs, v3).
inline Records passes() {
  std::vector<std::string> warnings;
  return read_records(in_tree("tests/data/passes.jsonl"), warnings);
}

// Finds the one record of v2 with this tile on a mask and length.
inline RecordJson& point(Records& records, const std::string& block, const std::string& mask,
                         int seqlen) {
  for (RecordJson& record : records) {
    if (exact(find_field("block", "").read(record)) == block && record["problem"]["mask"] == mask &&
        record["problem"]["seqlen_q"] == seqlen) {
      return record;
    }
  }
  throw std::out_of_range(block);
}

// Returns every digit of a field.
inline std::string value(const RecordJson& record, const std::string& field) {
  return exact(find_field(field, "").read(record));
}

}  // namespace attnlab
