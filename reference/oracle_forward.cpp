#include "reference/oracle_forward.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnlab::reference {
namespace {

// Turns unscaled scores of row i into probabilities, in place; returns the row's lse.
double softmax_row(double scale, const Matrix<Fate>& fates, Eigen::Index i, Matrix<double>& p) {
  double largest = -std::numeric_limits<double>::infinity();
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    p(i, j) *= scale;
    if (fates(i, j) != Fate::masked) largest = std::max(largest, p(i, j));
  }
  double sum = 0.0;
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    p(i, j) = fates(i, j) == Fate::masked ? 0.0 : std::exp(p(i, j) - largest);
    sum += p(i, j);
  }
  if (sum == 0.0) return largest;  // sees nothing
  p.row(i) /= sum;
  return largest + std::log(sum);
}

}  // namespace

Attention attend(const Slice& slice, Indices rows) {
  const Matrix<double> q = slice.read_q(rows).cast<double>();
  Attention result = {.fates = slice.fates(rows),
                      .p = slice.multiply_k_transposed(q, slice.all_keys(), Factors::as_they_are),
                      .lse = Eigen::VectorXd(slice.chunk_rows()),
                      .o = {}};
  for (Eigen::Index i = 0; i < result.p.rows(); ++i) {
    result.lse(i) = softmax_row(slice.problem().scale(), result.fates, i, result.p);
  }
  result.o = slice.multiply_v(drop(slice.problem(), result.fates, result.p), Factors::as_they_are);
  return result;
}

}  // namespace attnlab::reference
