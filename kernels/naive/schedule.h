// naive: attention as separate passes over matrices in HBM.
//   1. S = softmax_scale * Q K^T     a library's product
//   2. S = mask(S)                   if there is a mask
//   3. P = softmax(S), lse
//   4. O = P V                       a library's product
// S and P are materialized, (batch, num_heads_q, seqlen_q, seqlen_k) each.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/shape.h"

namespace attnlab::naive {

// One pass is cut into panels of `panel` rows (or columns) of every slice.
struct PassSchedule {
  i64 batch = 1;
  i64 num_heads_q = 1;
  i64 extent = 0;  // rows (or columns) of a slice
  i64 panel = 1;
};

struct PanelItem {
  i64 batch = 0;
  i64 head = 0;
  Range range;
};

ATTNLAB_HD constexpr i64 work_items(const PassSchedule& pass) {
  return pass.batch * pass.num_heads_q * ceil_div(pass.extent, pass.panel);
}

ATTNLAB_HD constexpr PanelItem work_item(const PassSchedule& pass, i64 index) {
  const i64 panels = ceil_div(pass.extent, pass.panel);
  const i64 slice = index / panels;
  const i64 begin = index % panels * pass.panel;
  return {.batch = slice / pass.num_heads_q,
          .head = slice % pass.num_heads_q,
          .range = {begin, min(begin + pass.panel, pass.extent)}};
}

// Strides of S and P, in elements.
ATTNLAB_HD constexpr Strides score_strides(const Shape& shape) {
  return strides_bhsd(shape.seqlen_q, shape.num_heads_q, shape.seqlen_k);
}

ATTNLAB_HD constexpr i64 score_elements(const Shape& shape) {
  return shape.batch * shape.num_heads_q * shape.seqlen_q * shape.seqlen_k;
}

}  // namespace attnlab::naive
