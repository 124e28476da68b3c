// Is the twin: the same attention in the problem's own precision, materialized as eager frameworks
// do it. A kernel's error is measured by the twin's error against the oracle.
//
// S, P, dP, dS and the outputs are computed in fp32, each rounded to the storage type. With
// products in TF32 the factors of every product, P and dS among them, are rounded to TF32 before
// it; sums, softmax and dS itself stay in fp32. Of e4m3 it rounds where kernels do: inputs are
// quantised (reference/judged_inputs.h), P is shifted by 2^8 and rounded to e4m3, O to f16; scores
// and sums are not rounded, and its products are in double (on a device in fp32: DeviceWork).
#pragma once

#include "reference/oracle_backward.h"
#include "reference/storage.h"

namespace attnlab::reference {

// TwinAttention has P of at most chunk_rows() rows: (chunk_rows, keys), values of the storage type.
struct TwinAttention {
  Matrix<float> p;      // softmax(S), S = scale * Q K^T
  Matrix<float> pz;     // dropout(P)
  Eigen::VectorXf lse;  // (chunk_rows), of the rounded S, natural log; -inf where nothing is seen
};
TwinAttention twin_attend(const Slice& slice, Products products, const Matrix<float>& q,
                          const Matrix<Fate>& fates);

// Returns O = dropout(P) V: (chunk_rows, head_dim).
Matrix<float> twin_output(const Slice& slice, Products products, const TwinAttention& attention);

// Returns dS = P * (dropout(dP) - rowsum(P * dropout(dP))), dP = dO V^T, of some of the keys; the
// sums run over all. dropout(P) and dS are factors of products from here on, and rounded as such.
ScoreGradients<float> twin_differentiate(const Slice& slice, Products products,
                                         const TwinAttention& attention, const Matrix<Fate>& fates,
                                         const Matrix<float>& dout, Indices keys);

// Return factors of products as the products take them: K and V, and all others.
Factors twin_factors(Products products);
Matrix<float> twin_factors(Products products, const Matrix<float>& values);

// Makes dQ, dK and dV of their sums: scaled, then rounded.
Matrix<float> twin_round(const Problem& problem, double scale, const Matrix<float>& sums);

}  // namespace attnlab::reference
