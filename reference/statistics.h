// Statistics is what bounds of a tensor are judged by: sums and maxima over the elements of a row
// (of dk and dv: a key), of a (batch, head) slice or of a tensor. It is plain data, so that whoever
// compares elements, on any device, fills the same struct; to merge statistics of two parts add
// sums and take the larger maxima. x is the kernel's element, r the reference's, t the twin's.
#pragma once

#include <cmath>

namespace attnlab::reference {

// Errors says how large many errors are.
struct Errors {
  double largest = 0.0;
  double sum = 0.0;
  double sum_of_squares = 0.0;

  void add(double error);
  void merge(const Errors& other);
  double norm() const { return std::sqrt(sum_of_squares); }
};

struct Statistics {
  Errors kernel;                // |x - r|; infinite where either is not finite and they differ
  Errors twin;                  // |t - r|
  Errors delta;                 // D of reference/tolerance.h
  double kernel_along = 0.0;    // sum (x - r) r
  double twin_along = 0.0;      // sum (t - r) r
  double rounded_along = 0.0;   // sum (r rounded to the storage type - r) r
  double sum_of_squares = 0.0;  // of r
  double unit = 0.0;            // u, the largest
  // These are filled in when a row ends.
  double largest_size = 0.0;  // A'
  double rows = 0.0;          // whose sizes are not 0: the others are sums of nothing
  double elements = 0.0;      // of those rows
  // These sum over rows the square of: the row's norm of r times that of what may be wrong in it.
  double twin_rows = 0.0;    // ||t - r||
  double delta_rows = 0.0;   // ||D||
  double value_rows = 0.0;   // ||r||
  double size_rows = 0.0;    // A' of the row, as if all of its elements had it: A' sqrt(elements)
  double twin_alike = 0.0;   // sum over rows of ||t - r|| ||r|| times what is given of a row
  double size_powers = 0.0;  // sum over rows of A'^8

  // Ends the row; `size` is its A', `alike` how much of its errors other rows have, too. It is
  // called once, after all elements of the row and before merge().
  void end_row(double size, double row_elements, double alike);
  void merge(const Statistics& other);

  // Counts the rows of size, if a few are much larger than all others; all where r is 0.
  double rows_of_size() const {
    return value_rows > 0.0 ? sum_of_squares * sum_of_squares / value_rows : rows;
  }
  // Counts the rows whose A' is nearly the largest: half of it counts as 1 / 256.
  double rows_of_largest_size() const {
    return size_powers > 0.0 ? size_powers / std::pow(largest_size, 8.0) : rows;
  }
};

}  // namespace attnlab::reference
