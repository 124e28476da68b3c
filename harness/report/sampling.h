// Says which part of a point's outputs was verified, where that is not everything.
#pragma once

#include <optional>
#include <string>

#include "harness/report/field.h"

namespace attnlab {

struct Sampled {
  double coverage = 1.0;  // share of the rows (keys)
  std::string text;       // "512 of 16384 rows of dk"; of older records "3.1 % of the rows of dk"
};

// Returns the tensor of which the smallest share was compared, before or after timing; none where
// all outputs were compared whole, or nothing was.
std::optional<Sampled> sampled_of(const RecordJson& record);

}  // namespace attnlab
