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

// Returns the tensor of whose rows the smallest sample was compared, before or after timing; none
// where there was no sample, or nothing was compared.
std::optional<Sampled> sampled_of(const RecordJson& record);

// Returns the same of tensors of which whole heads were drawn: all rows of these were compared, so
// that it is no sample of a head.
std::optional<Sampled> drawn_of(const RecordJson& record);

}  // namespace attnlab
