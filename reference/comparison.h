// The elements of one tensor beside the oracle's: the numbers that the tolerance rule weighs.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/oracle.h"
#include "reference/storage.h"

namespace attnlab::reference {

// One compared element and where it is; column -1: lse has none; row -1: no element at all.
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
  // Infinite if either side is not finite and they differ, or is NaN.
  double error() const;
};

// "batch 0 head 1 row 5 column 3: got ..., want ..., bound ...; " and the problem's id.
std::string describe(const Element& element, const Problem& problem);
std::string number(double value);

// 0 / 0 is `at_zero`; anything else over 0 is infinite.
double ratio(double numerator, double denominator, double at_zero);

// How large many errors are.
struct Errors {
  double largest = 0.0;
  double sum = 0.0;
  double sum_of_squares = 0.0;

  void add(double error);
  double norm() const { return std::sqrt(sum_of_squares); }
};

// One row (of dk, dv: key) that is compared: row `index` of what the oracle expects.
struct ComparedRow {
  Element place;
  const Expected* expected = nullptr;
  Eigen::Index index = 0;
  bool must_be_zero = false;  // it sees nothing, or nobody sees it
};

struct Comparison {
  Errors kernel, twin, delta;
  Element worst;                // of the largest error
  Element not_zero;             // one that is not 0 where it must be, if any
  double unit = 0.0;            // u
  double largest_size = 0.0;    // A'
  double sum_of_squares = 0.0;  // of what is expected
  double rows = 0.0;            // whose sizes are not 0: the others are sums of nothing
  double elements = 0.0;        // of those rows
};

// `tensor` (o, dq, dk or dv) in the given rows.
Comparison compare(const Problem& problem, const void* tensor,
                   const std::vector<ComparedRow>& rows);

}  // namespace attnlab::reference
