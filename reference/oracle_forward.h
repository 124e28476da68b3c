// Computes the oracle's forward: softmax and its product with V, in double.
#pragma once

#include "reference/dropout.h"
#include "reference/slice.h"

namespace attnlab::reference {

// Attention is that of a chunk of rows.
struct Attention {
  Matrix<Fate> fates;   // (chunk_rows, keys)
  Matrix<double> p;     // (chunk_rows, keys), before dropout; 0 where masked
  Eigen::VectorXd lse;  // (chunk_rows), natural log; -inf for a row that sees nothing
  Matrix<double> o;     // (chunk_rows, head_dim)
};

// Takes at most chunk_rows() rows of a slice.
Attention attend(const Slice& slice, Indices rows);

// Returns P Z: dropped elements become 0, the others are multiplied with keep_scale.
template <class Scalar>
Matrix<Scalar> drop(const Problem& problem, const Matrix<Fate>& fates, Matrix<Scalar> p) {
  if (problem.dropout == 0.0) return p;
  const auto keep_scale = static_cast<Scalar>(dropout_keep_scale(problem));
  for (Eigen::Index i = 0; i < p.size(); ++i) {
    p.data()[i] *= fates.data()[i] == Fate::kept ? keep_scale : Scalar{0};
  }
  return p;
}

}  // namespace attnlab::reference
