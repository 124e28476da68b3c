// Says which part of a point's outputs was verified, where that is not everything, and which bound
// is wider than usual.
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

// Returns how far o of e4m3 may lie along the reference where its sums are not promoted; none where
// they are, in other types, and in older records, which do not say it.
std::optional<double> drift_of(const RecordJson& record);

}  // namespace attnlab
