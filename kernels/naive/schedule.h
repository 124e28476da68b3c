// naive: attention as separate passes over matrices in HBM, (batch, num_heads_q, seqlen_q,
// seqlen_k) each, in the storage type.
//
//   forward                                    reads, writes of a matrix
//   1. S = softmax_scale * Q K^T               0, 1   a library's product
//   2. S = mask(S), if there is a mask         1, 1
//   3. P = softmax(S), lse                     1, 1
//   4. Pd = dropout(P), if there is dropout    1, 1
//   5. O = Pd V                                1, 0   a library's product
//
//   backward, from the P that forward saved
//   1. dP = dO V^T                             0, 1   a library's product
//   2. dP = Z dP, if there is dropout          1, 1   Z = keep_scale, or 0 where P was dropped
//   3. dS = P (dP - rowsum(P dP))              2, 1
//   4. Pd = dropout(P), if there is dropout    1, 1
//   5. dQ = softmax_scale * dS K               1, 0   a library's product
//   6. dK = softmax_scale * dS^T Q             1, 0   a library's product
//   7. dV = Pd^T dO                            1, 0   a library's product
//
// So with N = seqlen_q = seqlen_k forward moves 4 N^2 elements of a slice, 2 N^2 more for a mask
// and 2 N^2 for dropout; backward 7 N^2, and 4 N^2 for dropout; the operands of the products come
// on top, each once.
#pragma once

#include "kernels/shared/grid.h"
#include "kernels/shared/layout.h"
#include "kernels/shared/shape.h"

namespace attnlab::naive {

constexpr i64 kPanelRows = 64;   // query rows that one work item (or block of a product) works on
constexpr i64 kPanelKeys = 256;  // keys of such a block

// A pass is cut into panels of rows of every query head, or of keys of every query or K/V head.
ATTNLAB_HD constexpr Grid row_panels_grid(const Shape& shape) {
  return {.batch = shape.batch,
          .heads = shape.num_heads_q,
          .blocks = ceil_div(shape.seqlen_q, kPanelRows)};
}

ATTNLAB_HD constexpr Grid key_panels_grid(const Shape& shape, i64 heads) {
  return {.batch = shape.batch, .heads = heads, .blocks = ceil_div(shape.seqlen_k, kPanelKeys)};
}

// A slice's panels of keys.
ATTNLAB_HD constexpr i64 key_panels(i64 seqlen_k) { return ceil_div(seqlen_k, kPanelKeys); }

// Strides of a matrix, in elements. A packed entry uses the corner of its own rows and keys.
ATTNLAB_HD constexpr Strides matrix_strides(const Shape& shape) {
  return strides_bhsd(shape.seqlen_q, shape.num_heads_q, shape.seqlen_k);
}

ATTNLAB_HD constexpr i64 matrix_elements(const Shape& shape) {
  return shape.batch * shape.num_heads_q * shape.seqlen_q * shape.seqlen_k;
}

}  // namespace attnlab::naive
