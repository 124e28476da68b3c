// Compares one tensor's elements with the oracle's: the numbers that the tolerance rule weighs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/bounds.h"
#include "reference/oracle.h"
#include "reference/statistics.h"
#include "reference/storage.h"

namespace attnlab::reference {

// Element is a compared element and its place; column -1: lse has none; row -1: no element at all.
struct Element {
  Side side = Side::query;  // rows of k, v, dk, dv are called keys
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = -1;
  std::int64_t column = -1;
  double got = 0.0;
  double want = 0.0;
  double bound = 0.0;

  bool exists() const { return row >= 0; }
  // Returns the error, infinite if either side is not finite and they differ, or is NaN.
  double error() const;
};

// Returns "batch 0 head 1 row 5 column 3: got ..., want ..., bound ...; " and the problem's id.
std::string describe(const Element& element, const Problem& problem);
// Returns "batch 0 head 1", with " row 5" (or key) if `with_row`, and " column 3" if it has one.
std::string place_of(const Element& element, bool with_row = true);
std::string number(double value);

// Returns `at_zero` for 0 / 0; anything else over 0 is infinite.
double ratio(double numerator, double denominator, double at_zero);

// ComparedRow is one row (of dk, dv: key) that is compared: row `index` of what the oracle expects.
struct ComparedRow {
  Element place;
  const Expected* expected = nullptr;
  Eigen::Index index = 0;
  double alike = 0.0;         // alike_share(), of o
  bool must_be_zero = false;  // it sees nothing, or nobody sees it
};

// Worst is a bound's figure, of the row or slice where it uses the largest share of the bound.
struct Worst {
  Held held;
  Element place;  // no column; of a slice: its first compared row

  void take(const Held& other, const Element& at);
};

struct Comparison {
  Statistics all;
  Element worst;                    // of the largest error
  Element not_zero;                 // one that is not 0 where it must be, if any
  Worst row, slice;                 // by hold_row() and hold_slope()
  std::vector<double> row_squares;  // each row's sum of r^2 that is not 0

  // Returns Statistics::rows_of_size(), but equal rows count as one row of their summed r^2: they
  // round alike. Rows of the same sum of r^2 are taken for equal.
  double different_rows_of_size() const;
};

// Adds up the rows of a tensor; those of one slice follow one another.
class ComparisonSum {
 public:
  explicit ComparisonSum(const Precision& precision) : precision_(precision) {}

  // Adds a row that has ended, its largest error and an element that is not 0 but must be, if any.
  void add(const Statistics& row, const Element& worst, const Element& not_zero);
  // Returns the comparison of all rows that were added; it is called once.
  Comparison end();

 private:
  void end_slice();

  Precision precision_;
  Comparison result_;
  Statistics slice_;
  Element row_;  // the last one
};

// Compares `tensor` (o, dq, dk or dv) in the given rows; those of one slice stand together.
Comparison compare(const Problem& problem, const Precision& precision, const void* tensor,
                   const std::vector<ComparedRow>& rows);

}  // namespace attnlab::reference
