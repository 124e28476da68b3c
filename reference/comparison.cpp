#include "reference/comparison.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace attnlab::reference {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// What the storage type loses around a value: |((r + 0.3) - 0.3) - r|, each step rounded.
double rounding_unit(Dtype dtype, double value) {
  const float r = round_to_storage(dtype, static_cast<float>(value));
  const float offset = round_to_storage(dtype, 0.3f);
  const float there = round_to_storage(dtype, r + offset);
  const float back = round_to_storage(dtype, there - offset);
  return std::abs(static_cast<double>(back) - static_cast<double>(r));
}

}  // namespace

double Element::error() const {
  if (got == want) return 0.0;
  const double difference = std::abs(got - want);
  return std::isfinite(difference) ? difference : kInfinite;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string describe(const Element& element, const Problem& problem) {
  if (!element.exists()) return problem.id();
  std::string text =
      "batch " + std::to_string(element.batch) + " head " + std::to_string(element.head) +
      (element.side == Side::query ? " row " : " key ") + std::to_string(element.row);
  if (element.column >= 0) text += " column " + std::to_string(element.column);
  return text + ": got " + number(element.got) + ", want " + number(element.want) + ", bound " +
         number(element.bound) + "; " + problem.id();
}

double ratio(double numerator, double denominator, double at_zero) {
  if (denominator != 0.0) return numerator / denominator;
  return numerator == 0.0 ? at_zero : kInfinite;
}

void Errors::add(double error) {
  largest = std::max(largest, error);
  sum += error;
  sum_of_squares += error * error;
}

Comparison compare(const Problem& problem, const void* tensor,
                   const std::vector<ComparedRow>& rows) {
  Comparison all;
  std::vector<float> got(static_cast<std::size_t>(problem.head_dim));
  for (const ComparedRow& row : rows) {
    const Expected& expected = *row.expected;
    Element element = row.place;
    read_elements(problem.dtype, tensor,
                  row_offset(problem, element.side, element.batch, element.head, element.row),
                  problem.head_dim, got.data());
    for (Eigen::Index d = 0; d < problem.head_dim; ++d) {
      element.column = d;
      element.got = got[static_cast<std::size_t>(d)];
      element.want = expected.value(row.index, d);
      const double error = element.error();
      if (!all.worst.exists() || error > all.kernel.largest) all.worst = element;
      if (row.must_be_zero && element.got != 0.0) all.not_zero = element;
      all.kernel.add(error);
      all.twin.add(std::abs(static_cast<double>(expected.twin(row.index, d)) - element.want));
      if (expected.delta_error.size() > 0) all.delta.add(expected.delta_error(row.index, d));
      all.unit = std::max(all.unit, rounding_unit(problem.dtype, element.want));
      all.sum_of_squares += element.want * element.want;
    }
    const auto size = static_cast<double>(expected.sizes(row.index));
    if (size > 0.0) {
      all.rows += 1.0;
      all.elements += static_cast<double>(problem.head_dim);
    }
    all.largest_size = std::max(all.largest_size, size);
  }
  return all;
}

}  // namespace attnlab::reference
