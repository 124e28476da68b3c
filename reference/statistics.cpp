#include "reference/statistics.h"

#include <algorithm>
#include <cmath>

namespace attnlab::reference {

void Errors::add(double error) {
  largest = std::max(largest, error);
  sum += error;
  sum_of_squares += error * error;
}

void Errors::merge(const Errors& other) {
  largest = std::max(largest, other.largest);
  sum += other.sum;
  sum_of_squares += other.sum_of_squares;
}

void Statistics::end_row(double size, double row_elements, double alike) {
  largest_size = size;
  if (size > 0.0) {
    rows = 1.0;
    elements = row_elements;
  }
  twin_rows = twin.sum_of_squares * sum_of_squares;
  delta_rows = delta.sum_of_squares * sum_of_squares;
  value_rows = sum_of_squares * sum_of_squares;
  size_rows = size * size * row_elements * sum_of_squares;
  twin_alike = alike * std::sqrt(twin_rows);
  size_powers = std::pow(size, 8.0);
}

void Statistics::merge(const Statistics& other) {
  kernel.merge(other.kernel);
  twin.merge(other.twin);
  delta.merge(other.delta);
  kernel_along += other.kernel_along;
  twin_along += other.twin_along;
  rounded_along += other.rounded_along;
  sum_of_squares += other.sum_of_squares;
  unit = std::max(unit, other.unit);
  largest_size = std::max(largest_size, other.largest_size);
  rows += other.rows;
  elements += other.elements;
  twin_rows += other.twin_rows;
  delta_rows += other.delta_rows;
  value_rows += other.value_rows;
  size_rows += other.size_rows;
  twin_alike += other.twin_alike;
  size_powers += other.size_powers;
}

}  // namespace attnlab::reference
