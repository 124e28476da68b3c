// Computes the oracle's backward, in double: from the oracle's own P, lse and O, never a kernel's.
#pragma once

#include "reference/oracle_forward.h"

namespace attnlab::reference {

// ScoreGradients weights K, Q and dO of a chunk of rows: dQ = scale * ds K; dK and dV are sums over
// chunks of scale * ds^T Q and pz^T dO. Oracle, twin and bounds of rounding each have theirs.
template <class Scalar>
struct ScoreGradients {
  Matrix<Scalar> pz;  // (chunk_rows, keys), P after dropout
  Matrix<Scalar> ds;  // (chunk_rows, keys)
};

// ColumnSums sums over chunks ds^T Q and pz^T dO: dK (unscaled) and dV of some keys.
template <class Scalar>
struct ColumnSums {
  Matrix<Scalar> dk;  // (keys, head_dim)
  Matrix<Scalar> dv;

  void add(const ScoreGradients<Scalar>& weights, const Matrix<Scalar>& q,
           const Matrix<Scalar>& dout) {
    if (dk.size() == 0) *this = zero(weights.ds.cols(), q.cols());
    dk.noalias() += weights.ds.transpose() * q;
    dv.noalias() += weights.pz.transpose() * dout;
  }
  ColumnSums& operator+=(const ColumnSums& other) {
    dk += other.dk;
    dv += other.dv;
    return *this;
  }
  static ColumnSums zero(Eigen::Index keys, Eigen::Index head_dim) {
    return {Matrix<Scalar>::Zero(keys, head_dim), Matrix<Scalar>::Zero(keys, head_dim)};
  }
};

// Computes dS = P (Z dP - delta), dP = dO V^T, delta = rowsum(dO * O), for some of the keys.
ScoreGradients<double> differentiate(const Slice& slice, const Attention& attention,
                                     const Matrix<double>& dout, Indices keys);

}  // namespace attnlab::reference
