// Says which elements of P dropout keeps: the oracle's own writing of the map from position to
// Philox counter, output word, half of it and threshold. It shares the bare philox() with the
// kernels, and nothing of kernels/shared/dropout.h, which it judges.
#pragma once

#include <cstdint>

#include "kernels/api/problem.h"
#include "kernels/shared/philox.h"

namespace attnlab::reference {

// DropoutSource says where the 16-bit number of one element of P comes from.
struct DropoutSource {
  PhiloxCounter counter;
  int word = 0;  // of the four that philox() returns
  bool upper_half = false;
};

DropoutSource dropout_source(const Problem& problem, std::int64_t b, std::int64_t head,
                             std::int64_t row, std::int64_t col);

// Returns T = round(65536 * p): an element is dropped iff its number is below it.
std::uint32_t dropout_threshold(const Problem& problem);

// Returns the scale of kept elements, 65536 / (65536 - T).
double dropout_keep_scale(const Problem& problem);

// Returns if dropout keeps element (row, col) of the slice (b, head); true if dropout is 0.
bool element_is_kept(const Problem& problem, std::int64_t b, std::int64_t head, std::int64_t row,
                     std::int64_t col);

}  // namespace attnlab::reference
