// Makes calls of naive's products for all slices, as few as the layout allows: a call takes a batch
// of products whose operands lie at constant distances, or groups of such batches.
#pragma once

#include <vector>

#include "kernels/api/problem.h"
#include "kernels/cuda/blas.h"

namespace attnlab::naive {

// Offsets and strides are of the operands as they lie in a Problem's tensors, and of matrices with
// padded_strides().
struct ProductCalls {
  std::vector<cuda::Gemm> gemms;
  // These elements of the result are sums over nothing, which no product writes: in packed entries
  // without rows, or without keys.
  std::vector<Range> zeros;
};

// Returns calls of (matrix) = alpha * (q, dO) (k, v)^T: S, dP.
ProductCalls score_calls(const Problem& problem, float alpha);

// Returns calls of (o, dQ) = alpha * (matrix) (v, k): O, dQ.
ProductCalls row_calls(const Problem& problem, float alpha);

// Returns calls of (dK, dV) = alpha * (matrix)^T (q, dO), summed over a K/V head's query heads.
ProductCalls key_calls(const Problem& problem, float alpha);

// Returns whether key_calls() sums query heads call by call, into the result. Else their rows
// follow one another, as one long inner dimension.
bool sums_by_calls(const Problem& problem);

}  // namespace attnlab::naive
