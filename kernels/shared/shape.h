// Defines the plain struct that kernels get: sizes and strides of one problem; it owns no memory.
#pragma once

#include "kernels/shared/layout.h"

namespace attnlab {

struct Shape {
  i64 batch = 1;
  i64 num_heads_q = 1;
  i64 num_heads_kv = 1;
  i64 seqlen_q = 0;  // of the tensors; with packed sequences: the longest entry
  i64 seqlen_k = 0;
  i64 head_dim = 0;
  float softmax_scale = 1.0f;
  float softmax_scale_log2 = kLog2E;  // softmax_scale * log2(e), rounded once
  Strides q;                          // of q, o, dO, dQ   (batch, num_heads_q, seqlen_q, head_dim)
  Strides k;                          // of k, v, dK, dV   (batch, num_heads_kv, seqlen_k, head_dim)

  // Returns the K/V head that query head h reads: consecutive query heads share one (GQA, MQA).
  ATTNLAB_HD constexpr i64 kv_head(i64 h) const { return static_cast<u32>(h) / sharing(); }
  // Returns the query heads of a K/V head in 32 bits: a GPU divides those in a quarter of the time.
  ATTNLAB_HD constexpr u32 sharing() const {
    return static_cast<u32>(num_heads_q) / static_cast<u32>(num_heads_kv);
  }
  // lse, delta, m and l are [batch, num_heads_q, seqlen_q] in fp32, whatever the layout.
  ATTNLAB_HD constexpr i64 row_statistic_offset(i64 b, i64 h, i64 r) const {
    return (b * num_heads_q + h) * seqlen_q + r;
  }
};

}  // namespace attnlab
