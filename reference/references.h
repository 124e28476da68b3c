// Says what the oracle is asked for, and answers: samples of rows and keys, and their references.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "reference/cut_off.h"
#include "reference/slice.h"
#include "reference/storage.h"

namespace attnlab::reference {

// Sample is some query rows of one (batch, head) slice.
struct Sample {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::vector<std::int64_t> rows;  // ascending, distinct

  bool operator==(const Sample& other) const = default;
};

// ColumnSample is some keys of an entry's K/V head: what they get from all heads that share it.
struct ColumnSample {
  std::int64_t batch = 0;
  std::int64_t head_kv = 0;
  std::vector<std::int64_t> keys;  // ascending, distinct

  bool operator==(const ColumnSample& other) const = default;
};

struct Samples {
  std::vector<Sample> rows;           // of o, lse, dq
  std::vector<ColumnSample> columns;  // of dk, dv; none for Pass::fwd
  std::uint64_t seed = 0;             // that they were drawn from
};

// Expected is what one tensor should be in the sampled rows (of dk, dv: keys), and what the
// tolerance rule needs to judge it.
struct Expected {
  Matrix<double> value;   // (rows, head_dim)
  Matrix<float> twin;     // (rows, head_dim), the same-precision materialized computation
  Eigen::VectorXf sizes;  // (rows), the largest element of the product of absolute values
  // (rows, head_dim): the error of dq and dk that rounding O (in TF32: dO) may cause by way of
  // delta. It is empty for o and dv, which delta does not enter.
  Matrix<float> delta_error;
};

struct RowReference {
  Sample sample;
  Eigen::VectorXd lse;          // (rows), natural log; -inf for a row that sees nothing
  Eigen::VectorXf lse_twin;     // (rows), the twin's
  Eigen::VectorXf score_bound;  // (rows), max_j softmax_scale * sum_d |q_d k_jd| over visible j
  Expected o;
  Expected dq;  // empty for Pass::fwd
  Matrix<double>
      unquantised;  // (rows, head_dim), o of the inputs before they became e4m3; or empty
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
  double score_step = 0.0;                // see reference/rounding.h
  std::uint64_t seed = 0;                 // of the samples
  std::shared_ptr<const CutOff> cut_off;  // of an e4m3 problem; else null
};

}  // namespace attnlab::reference
