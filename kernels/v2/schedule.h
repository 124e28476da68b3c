// v2: FlashAttention-2's work partitioning. Forward: one work item is one tile of query rows of one
// (batch, head) slice; it passes over the key tiles it sees and writes its rows of O and lse once.
// Backward: one work item is one tile of keys of one (batch, K/V head); it passes over the query
// tiles that see it, of every query head that shares the K/V head, and writes its rows of dK and dV
// once; what it owes to dQ it adds to fp32 sums in HBM. Source: Dao, FlashAttention-2 (2023),
// Algorithms 1 and 2, section 3.2.
#pragma once

#include "kernels/shared/grid.h"
#include "kernels/shared/mask.h"
#include "kernels/shared/shape.h"

namespace attnlab::v2 {

// Tiles of query rows of the query heads: forward, and the passes before and after backward. Under
// a causal mask the last ones see the most keys.
ATTNLAB_HD constexpr Grid row_grid(const Shape& shape, const Tiling& tiling, bool is_causal) {
  return {.batch = shape.batch,
          .heads = shape.num_heads_q,
          .blocks = tiling.m_blocks(shape.seqlen_q),
          .last_block_first = is_causal};
}

// Tiles of keys of the K/V heads: backward. The first ones, which the most rows see under a causal
// mask, go first; so they do in the order of turns at dQ.
ATTNLAB_HD constexpr Grid key_grid(const Shape& shape, const Tiling& tiling) {
  return {
      .batch = shape.batch, .heads = shape.num_heads_kv, .blocks = tiling.n_blocks(shape.seqlen_k)};
}

}  // namespace attnlab::v2
