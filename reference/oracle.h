// The oracle: attention in double from the same rounded inputs, with masks and dropout layout of
// its own. It shares nothing with the kernels but the bare Philox function and the rounding of
// types.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"
#include "reference/slice.h"
#include "reference/storage.h"

namespace attnlab::reference {

// Some query rows of one (batch, head) slice.
struct Sample {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::vector<std::int64_t> rows;  // ascending, distinct
};

// Some keys of one K/V head of an entry: what they get from all query heads that share the head.
struct ColumnSample {
  std::int64_t batch = 0;
  std::int64_t head_kv = 0;
  std::vector<std::int64_t> keys;  // ascending, distinct
};

struct Samples {
  std::vector<Sample> rows;           // of o, lse, dq
  std::vector<ColumnSample> columns;  // of dk, dv; none for Pass::fwd
};

// All rows and all columns if their multiply-adds fit the budget: for each pair of a row and a key
// head_dim times 2 forward, 6 with backward. Else, with backward, columns get one half of it and
// rows the rest (the other half, and what columns leave of theirs).
//
// Rows, at 2 (with backward 4) * seqlen_k * head_dim each: slices and rows drawn from the seed,
// always with the first and last row and the rows on both sides of multiples of 64 (as many as fit
// while a quarter stays for other rows), and at least one slice, of which the first and last row
// are there even if they do not fit.
//
// Columns: one or two K/V heads drawn from the seed, the keys chosen like rows. A K/V head costs
// the softmax and delta of every row that uses it, 2 * rows * seqlen_k * head_dim, and 3 * rows *
// head_dim for each key. One head is there even if it does not fit, with its first and last key and
// a twelfth of all keys (which adds an eighth to the cost): so long sequences cost more than the
// budget, in proportion to seqlen_q * seqlen_k.
//
// (The twin and the bounds triple what make_references really spends.)
Samples choose_samples(const Problem& problem, std::int64_t multiply_adds, std::uint64_t seed);

// What one tensor should be in the sampled rows (of dk, dv: keys), and what the tolerance rule
// needs to judge it.
struct Expected {
  Matrix<double> value;   // (rows, head_dim)
  Matrix<float> twin;     // (rows, head_dim), the same-precision materialized computation
  Eigen::VectorXf sizes;  // (rows), the largest element of the product of absolute values
  // (rows, head_dim): what rounding O (of TF32: dO) may do to dq and dk through delta. Empty where
  // it does not enter (o, dv) or is nothing beside the rounding of sums (f32).
  Matrix<float> delta_error;
};

struct RowReference {
  Sample sample;
  Eigen::VectorXd lse;          // (rows), natural log; -inf for a row that sees nothing
  Eigen::VectorXf lse_twin;     // (rows), the twin's
  Eigen::VectorXf score_bound;  // (rows), max_j softmax_scale * sum_d |q_d k_jd| over visible j
  Expected o;
  Expected dq;  // empty for Pass::fwd
};

struct ColumnReference {
  ColumnSample sample;
  std::vector<bool> seen;  // (keys), by any row of any head that uses them
  Expected dk;
  Expected dv;
};

struct References {
  std::vector<RowReference> rows;
  std::vector<ColumnReference> columns;
  Products products = Products::storage;  // of the twin
};

// Oracle and twin of every sample; uses up to `threads` threads, whose number does not change a
// bit. Reads q, k, v and, unless problem.pass is fwd, dout, and nothing else of `tensors`: lengths
// and patterns come from the problem. The twin's products are in the precision of those of the
// kernels that will be judged. Throws std::invalid_argument for a block pattern that cannot be
// drawn, and for products in TF32 of 16-bit types, which it would not round.
References make_references(const Problem& problem, const Tensors& tensors, const Samples& samples,
                           int threads, Products products = Products::storage);

}  // namespace attnlab::reference
