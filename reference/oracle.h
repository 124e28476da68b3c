// The oracle: attention in double from the same rounded inputs, with masks and dropout layout of
// its own. It shares nothing with the kernels but the bare Philox function and the rounding of
// types.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"

namespace attnlab::reference {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Some query rows of one (batch, head) slice.
struct Sample {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::vector<std::int64_t> rows;  // ascending, distinct
};

// All rows of all slices if their multiply-adds (2 * seqlen_k * head_dim a row) fit the budget;
// else slices and rows drawn from the seed, always with the first and last row and the rows on both
// sides of multiples of 64 (as many as fit while a quarter stays for other rows), and at least one
// slice. Every returned row fits the budget, except that one slice's first and last row are always
// there. (The twin and the bounds triple what forward_reference really spends.)
std::vector<Sample> choose_samples(const Problem& problem, std::int64_t multiply_adds,
                                   std::uint64_t seed);

// What the outputs of one sample should be, and what the tolerance rule needs to judge them.
struct ForwardReference {
  Sample sample;
  RowMatrix o;                   // (rows, head_dim), double
  Eigen::VectorXd lse;           // (rows), natural log; -inf for a row that sees nothing
  RowMatrix twin_o;              // (rows, head_dim), the same-precision materialized computation
  double largest_product = 0.0;  // A for O: max over the slice's rows of sum_j P_j |V_j|
  Eigen::VectorXd score_bound;   // (rows), max_j softmax_scale * sum_d |q_d k_jd| over visible j
};

// Oracle and twin of every sample; uses up to `threads` threads. Reads q, k, v and nothing else of
// `tensors`: lengths and patterns come from the problem.
std::vector<ForwardReference> forward_reference(const Problem& problem, const Tensors& tensors,
                                                const std::vector<Sample>& samples, int threads);

}  // namespace attnlab::reference
