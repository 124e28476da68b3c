#include "reference/twin.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "reference/dropout.h"
#include "reference/storage.h"

namespace attnlab::reference {
namespace {

// Summed in eight lanes, as vectorised frameworks do; one running sum would lose more.
float sum_in_lanes(std::span<const float> values) {
  std::array<float, 8> lanes{};
  for (std::size_t j = 0; j < values.size(); ++j) lanes[j % lanes.size()] += values[j];
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Scores of one row to probabilities, in place; masked ones become exactly 0, whatever their score.
void softmax_row(Dtype dtype, float scale, std::span<const Fate> fates, std::span<float> row) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < row.size(); ++j) {
    if (fates[j] == Fate::masked) continue;
    row[j] = round_to_storage(dtype, scale * row[j]);
    largest = std::max(largest, row[j]);
  }
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = fates[j] == Fate::masked ? 0.0f : std::exp(row[j] - largest);
  }
  const float sum = sum_in_lanes(row);
  if (sum == 0.0f) return;  // sees nothing: P stays 0
  for (float& p : row) p = round_to_storage(dtype, p / sum);
}

void drop_row(Dtype dtype, float keep_scale, std::span<const Fate> fates, std::span<float> row) {
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = fates[j] == Fate::kept ? round_to_storage(dtype, row[j] * keep_scale) : 0.0f;
  }
}

}  // namespace

std::vector<float> twin_forward(const Slice& slice, std::span<const std::int64_t> rows,
                                std::span<const Fate> fates) {
  const Problem& problem = slice.problem();
  const float scale = static_cast<float>(problem.scale());
  const float keep_scale = static_cast<float>(dropout_keep_scale(problem));
  const auto keys = static_cast<std::size_t>(slice.keys());

  std::vector<float> p = slice.multiply_qk<float>(rows, Factors::as_they_are);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<float> row = std::span(p).subspan(i * keys, keys);
    const std::span<const Fate> row_fates = fates.subspan(i * keys, keys);
    softmax_row(problem.dtype, scale, row_fates, row);
    if (problem.dropout > 0.0) drop_row(problem.dtype, keep_scale, row_fates, row);
  }

  std::vector<float> o = slice.multiply_pv(p, Factors::as_they_are);
  o.resize(rows.size() * static_cast<std::size_t>(problem.head_dim));
  for (float& x : o) x = round_to_storage(problem.dtype, x);
  return o;
}

}  // namespace attnlab::reference
