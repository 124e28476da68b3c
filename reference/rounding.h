// Says how much rounding may gather in an output, whatever the order of its sums: the oracle's
// products, of absolute values. They are formed in fp32, for a bound needs no more.
#pragma once

#include <cstdint>

#include "reference/oracle_backward.h"
#include "reference/storage.h"

namespace attnlab::reference {

// Returns max_j softmax_scale * sum_d |q_d k_jd| over the visible keys of every row: what the
// rounding of scores is relative to.
Eigen::VectorXf score_bounds(const Slice& slice, const Matrix<float>& q, const Matrix<Fate>& fates);

// Returns how much larger large scores make the errors of a row, f of reference/tolerance.h.
Eigen::VectorXf score_factors(const Slice& slice, const Matrix<float>& q,
                              const Attention& attention, const Eigen::VectorXf& score_bounds);

// All scores are multiples of score_step(), as q's and k's first elements say: 0 if all are 0.
constexpr std::int64_t kElementsOfStep = 4096;  // that are looked at, at most
double score_step(const Problem& problem, const void* q, const void* k);

// Returns sum_j P_j Z_j |V_j| of every row, times the row's factor: (chunk_rows, head_dim).
Matrix<float> output_sizes(const Slice& slice, const Attention& attention,
                           const Eigen::VectorXf& factors);

// Returns pz = P Z and ds = P (Z sum |dO||V| + sum |dO||O|) of some keys, times the row's factor.
ScoreGradients<float> gradient_sizes(const Slice& slice, const Attention& attention,
                                     const Eigen::VectorXf& factors, const Matrix<float>& dout,
                                     Indices keys);

// Returns the size of the error that rounding brings to dS by way of delta = rowsum(dO * O).
// Exactly, delta is the mean of dP = dO V^T weighted with P; but a kernel forms it from an O that
// is rounded, or (TF32) from a dO that is not, and from P that are rounded. The errors are
// independent and below e |dO * O|, e the unit roundoff, and below e |P Z dP| of every key; so that
// of delta (or of all dP of a row) is of the size e sqrt(||dO * O||^2 + ||P Z dP||^2), and that of
// dS is P times it: (chunk_rows, keys).
Matrix<float> delta_errors(const Slice& slice, Products products, const Attention& attention,
                           const Matrix<float>& dout, Indices keys);

}  // namespace attnlab::reference
