#include "reference/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace attnlab::reference {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Returns what storage loses around a value: |((r + 0.3) - 0.3) - r|, each step rounded.
double rounding_unit(Dtype dtype, double value) {
  const float r = round_to_storage(dtype, static_cast<float>(value));
  const float offset = round_to_storage(dtype, 0.3f);
  const float there = round_to_storage(dtype, r + offset);
  const float back = round_to_storage(dtype, there - offset);
  return std::abs(static_cast<double>(back) - static_cast<double>(r));
}

// RowComparison is one row, and where its worst element and one that is not 0 are.
struct RowComparison {
  Statistics statistics;
  Element worst, not_zero;
};

RowComparison compare_row(const Problem& problem, const ComparedRow& row, const float* got) {
  const Expected& expected = *row.expected;
  RowComparison result;
  Statistics& statistics = result.statistics;
  Element element = row.place;
  double largest = -1.0;
  for (Eigen::Index d = 0; d < problem.head_dim; ++d) {
    element.column = d;
    element.got = got[d];
    element.want = expected.value(row.index, d);
    const double error = element.error();
    if (error > largest) {
      result.worst = element;
      largest = error;
    }
    if (row.must_be_zero && element.got != 0.0) result.not_zero = element;
    const double twin_error = static_cast<double>(expected.twin(row.index, d)) - element.want;
    statistics.kernel.add(error);
    statistics.twin.add(std::abs(twin_error));
    if (expected.delta_error.size() > 0) statistics.delta.add(expected.delta_error(row.index, d));
    statistics.kernel_along += (element.got - element.want) * element.want;
    statistics.twin_along += twin_error * element.want;
    const float rounded =
        round_to_storage(problem.output_dtype(), static_cast<float>(element.want));
    statistics.rounded_along += (static_cast<double>(rounded) - element.want) * element.want;
    statistics.sum_of_squares += element.want * element.want;
    statistics.unit =
        std::max(statistics.unit, rounding_unit(problem.output_dtype(), element.want));
  }
  statistics.end_row(static_cast<double>(expected.sizes(row.index)),
                     static_cast<double>(problem.head_dim), row.alike);
  return result;
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

std::string place_of(const Element& element, bool with_row) {
  std::string text =
      "batch " + std::to_string(element.batch) + " head " + std::to_string(element.head);
  if (!with_row) return text;
  text += (element.side == Side::query ? " row " : " key ") + std::to_string(element.row);
  return element.column < 0 ? text : text + " column " + std::to_string(element.column);
}

std::string describe(const Element& element, const Problem& problem) {
  if (!element.exists()) return problem.id();
  return place_of(element) + ": got " + number(element.got) + ", want " + number(element.want) +
         ", bound " + number(element.bound) + "; " + problem.id();
}

double ratio(double numerator, double denominator, double at_zero) {
  if (denominator != 0.0) return numerator / denominator;
  return numerator == 0.0 ? at_zero : kInfinite;
}

void Worst::take(const Held& other, const Element& at) {
  // A share that is NaN is taken, and stays: it fails.
  if (place.exists() && !(other.share() > held.share()) && !std::isnan(other.share())) return;
  if (std::isnan(held.share())) return;
  held = other;
  place = at;
}

double Comparison::different_rows_of_size() const {
  std::vector<double> sorted = row_squares;
  std::sort(sorted.begin(), sorted.end());
  double sum = 0.0, sum_of_squares = 0.0;
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto end = std::upper_bound(first, sorted.end(), *first);
    const double of_all = *first * static_cast<double>(end - first);
    sum += of_all;
    sum_of_squares += of_all * of_all;
    first = end;
  }
  return sum_of_squares > 0.0 ? sum * sum / sum_of_squares : all.rows;
}

void ComparisonSum::add(const Statistics& row, const Element& worst, const Element& not_zero) {
  if (row_.exists() && (worst.batch != row_.batch || worst.head != row_.head)) end_slice();
  row_ = worst;
  row_.column = -1;
  if (!result_.worst.exists() || worst.error() > result_.worst.error()) result_.worst = worst;
  if (not_zero.exists()) result_.not_zero = not_zero;
  if (row.sum_of_squares > 0.0) result_.row_squares.push_back(row.sum_of_squares);
  result_.row.take(hold_row(row, precision_), row_);
  slice_.merge(row);
}

void ComparisonSum::end_slice() {
  result_.slice.take(hold_slope(slice_, precision_), row_);
  result_.all.merge(slice_);
  slice_ = {};
}

Comparison ComparisonSum::end() {
  if (row_.exists()) end_slice();
  return result_;
}

Comparison compare(const Problem& problem, const Precision& precision, const void* tensor,
                   const std::vector<ComparedRow>& rows) {
  ComparisonSum sum(precision);
  std::vector<float> got(static_cast<std::size_t>(problem.head_dim));
  for (const ComparedRow& row : rows) {
    read_elements(
        problem.output_dtype(), tensor,
        row_offset(problem, row.place.side, row.place.batch, row.place.head, row.place.row),
        problem.head_dim, got.data());
    const RowComparison compared = compare_row(problem, row, got.data());
    sum.add(compared.statistics, compared.worst, compared.not_zero);
  }
  return sum.end();
}

}  // namespace attnlab::reference
