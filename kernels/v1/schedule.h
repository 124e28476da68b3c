// v1: FlashAttention as first published. The outer loop runs over tiles of keys, which stay in fast
// memory; the inner loop over tiles of query rows, whose running O, l and m are loaded from HBM and
// stored back at every step. One work item is one (batch, head): nothing else runs in parallel.
// Source: Dao, Fu, Ermon, Rudra and Re, FlashAttention (2022): Algorithms 1 and 2 (forward), 4
// (backward), 5 (block-sparse). Line numbers in the code are those of Algorithms 1 and 4.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/mask.h"

namespace attnlab::v1 {

// Fast memory of one thread block in elements: 192 KiB of fp32, the A100's on-chip memory in the
// paper (section 2.1).
constexpr i64 kDefaultSram = 49152;

// Block sizes that a user may ask for; 0: take the paper's.
struct AskedBlocks {
  i64 block_m = 0;
  i64 block_n = 0;
};

// Algorithm 1, line 1: K_j, V_j, Q_i and O_i get a quarter of the M = `sram` elements each,
//   Bc = ceil(M / 4d) keys,  Br = min(Bc, d) query rows;
// the second bound keeps the Br x Bc scores within the same quarter. Neither is capped beyond that.
ATTNLAB_HD constexpr Tiling make_tiling(i64 sram, i64 head_dim, AskedBlocks asked = {}) {
  const i64 quarter = ceil_div(sram, 4 * head_dim);
  return {.block_m = static_cast<i32>(asked.block_m > 0 ? asked.block_m : min(quarter, head_dim)),
          .block_n = static_cast<i32>(asked.block_n > 0 ? asked.block_n : quarter)};
}

// Whether any key tile from n_block `from` on is visible to `rows`. From 0: whether the rows see
// anything at all; from n_block + 1: whether n_block is not the last step of their O or dQ.
ATTNLAB_HD constexpr bool sees_keys(const Mask& mask, Range rows, i64 block_n, i64 from) {
  return next_n_block(mask, rows, block_n, from) < n_block_range(mask, rows, block_n).end;
}

// Elements that cross the border to HBM, in closed form.
struct Elements {
  i64 read = 0;
  i64 written = 0;
  ATTNLAB_HD friend constexpr bool operator==(const Elements&, const Elements&) = default;
};

// How many query rows the inner loops of one head take up in all: Tc * N without a mask; with
// blocks of which a fraction is not empty, Tc * N * fraction (tiles that divide N).
ATTNLAB_HD constexpr i64 row_visits(const Tiling& tiling, i64 seqlen_q, i64 seqlen_k) {
  return tiling.n_blocks(seqlen_k) * seqlen_q;
}

// One query head. With N = seqlen_q = seqlen_k this is the paper's
//   reads 2Nd + Tc (2Nd + 2N): K and V once; Q, O, l and m at each visit;
//   writes Tc (Nd + 2N): O, l and m at each visit;
// and beside it, written: O = 0, l = 0 and m = -inf before the first visit (Nd + 2N), lse at the
// last one (N).
ATTNLAB_HD constexpr Elements forward_elements(i64 seqlen_q, i64 seqlen_k, i64 head_dim,
                                               i64 visits) {
  return {.read = 2 * seqlen_k * head_dim + visits * (2 * head_dim + 2),
          .written = visits * (head_dim + 2) + seqlen_q * (head_dim + 2) + seqlen_q};
}

// One K/V head and the `sharing` query heads that read it; `visits` of one of them.
//   reads 2Nd + Tc (4Nd + 2N): K and V once; Q, O, dO, dQ, l and m at each visit;
//   writes 2Nd + Tc Nd: dK and dV once, dQ at each visit; and dQ = 0 at first (Nd).
ATTNLAB_HD constexpr Elements backward_elements(i64 seqlen_q, i64 seqlen_k, i64 head_dim,
                                                i64 visits, i64 sharing) {
  return {.read = 2 * seqlen_k * head_dim + sharing * visits * (4 * head_dim + 2),
          .written = 2 * seqlen_k * head_dim + sharing * (visits + seqlen_q) * head_dim};
}

}  // namespace attnlab::v1
