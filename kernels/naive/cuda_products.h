// The products of naive for all slices, as few calls of a library as the layout allows: a call
// takes a batch of products whose operands lie at constant distances, or groups of such batches.
#pragma once

#include <vector>

#include "kernels/api/problem.h"
#include "kernels/cuda/blas.h"

namespace attnlab::naive {

// Offsets and strides are of the operands as they lie in a Problem's tensors, and of matrices with
// padded_strides().
struct ProductCalls {
  std::vector<cuda::Gemm> gemms;
  // Elements of the result that are sums over nothing, which no product writes: in packed entries
  // without rows, or without keys.
  std::vector<Range> zeros;
};

// (matrix) = alpha * (q, dO) (k, v)^T: S, dP.
ProductCalls score_calls(const Problem& problem, float alpha);

// (o, dQ) = alpha * (matrix) (v, k): O, dQ.
ProductCalls row_calls(const Problem& problem, float alpha);

// (dK, dV) = alpha * (matrix)^T (q, dO), summed over the query heads that share a K/V head: dK, dV.
ProductCalls key_calls(const Problem& problem, float alpha);

// Whether key_calls() sums query heads call by call, into the result. Else their rows follow one
// another, as one long inner dimension.
bool sums_by_calls(const Problem& problem);

}  // namespace attnlab::naive
