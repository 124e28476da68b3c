#include "reference/dropout.h"

#include <array>
#include <cmath>

namespace attnlab::reference {

// A 16x16 block of P is four 8x8 quadrants; element (i, j) of all four quadrants, with that of its
// neighbour in the pair of columns, comes from one call. The quadrant picks the word, the place in
// the pair picks the half.
DropoutSource dropout_source(const Problem& problem, std::int64_t b, std::int64_t head,
                             std::int64_t row, std::int64_t col) {
  const std::int64_t slice = b * problem.num_heads_q + head;
  const std::int64_t i = row & 7;
  const std::int64_t j = col & 7;
  const bool right_quadrant = (col & 8) != 0;
  const bool lower_quadrant = (row & 8) != 0;
  return {.counter = {.x = static_cast<std::uint32_t>(col >> 4),
                      .y = static_cast<std::uint32_t>(row >> 4),
                      .z = static_cast<std::uint32_t>(slice),
                      .w = static_cast<std::uint32_t>((i << 2) + (j >> 1))},
          .word = (right_quadrant ? 2 : 0) + (lower_quadrant ? 1 : 0),
          .upper_half = (j & 1) != 0};
}

std::uint32_t dropout_threshold(const Problem& problem) {
  return static_cast<std::uint32_t>(std::lround(problem.dropout * 65536.0));
}

double dropout_keep_scale(const Problem& problem) {
  return 65536.0 / (65536.0 - static_cast<double>(dropout_threshold(problem)));
}

bool element_is_kept(const Problem& problem, std::int64_t b, std::int64_t head, std::int64_t row,
                     std::int64_t col) {
  const DropoutSource source = dropout_source(problem, b, head, row, col);
  const PhiloxKey key = {.low = static_cast<std::uint32_t>(problem.seed & 0xFFFFFFFFu),
                         .high = static_cast<std::uint32_t>(problem.seed >> 32)};
  const PhiloxCounter random = philox(source.counter, key);
  const std::array<std::uint32_t, 4> words = {random.x, random.y, random.z, random.w};
  const std::uint32_t word = words[static_cast<std::size_t>(source.word)];
  const std::uint32_t number = source.upper_half ? word >> 16 : word & 0xFFFFu;
  return number >= dropout_threshold(problem);
}

}  // namespace attnlab::reference
