// Stores what a forward of v2 or v3 leaves for its own backward beside o and lse: the maximum and
// the sum of rows whose logits lse does not hold (softmax_of_row). For all others the backward
// finds P from lse alone, as FlashAttention-2 does, so ordinary logits neither write nor read this.
#pragma once

#include "kernels/cpu/runner.h"
#include "kernels/shared/softmax.h"

namespace attnlab::cpu {

class SavedSoftmax {
 public:
  // `saved` has bytes(problem) bytes, and is null where no backward follows, or when only counting.
  SavedSoftmax(const Problem& problem, void* saved)
      : states_(static_cast<OnlineSoftmax*>(saved)), seqlen_q_(problem.seqlen_q) {}

  static u64 bytes(const Problem& problem) {
    const u64 rows = static_cast<u64>(problem.elements_lse());
    return problem.pass == Pass::fwd ? 0 : round_up<u64>(rows * sizeof(OnlineSoftmax), 256);
  }

  // Saves rows at the end of a forward.
  void store(const SliceTensors& slice, Range rows, const RowState& state,
             const Shape& shape) const {
    if (states_ == nullptr) return;
    for (i64 r = 0; r < rows.size(); ++r) {
      const OnlineSoftmax row = {.max = state.max[r], .sum = state.sum[r]};
      if (!lse_holds(lse(row, shape))) *place(slice, rows.begin + r) = row;
    }
  }

  // Loads the maximum and the sum of each of `rows`. Counts lse alone.
  void load(const SliceTensors& slice, Range rows, const Tile& row_max, const Tile& row_sum,
            Executor& executor) const {
    executor.load(slice.lse(rows), row_max);
    if (executor.counts_only()) return;
    for (i64 r = 0; r < rows.size(); ++r) {
      const OnlineSoftmax row = softmax_of_row(row_max.data[r], place(slice, rows.begin + r));
      row_max.data[r] = row.max;
      row_sum.data[r] = row.sum;
    }
  }

 private:
  OnlineSoftmax* place(const SliceTensors& slice, i64 row) const {
    return states_ + slice.index() * seqlen_q_ + row;
  }

  OnlineSoftmax* states_;  // (batch, num_heads_q, seqlen_q)
  i64 seqlen_q_;
};

}  // namespace attnlab::cpu
