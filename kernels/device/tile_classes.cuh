// The classes of all tiles under a block pattern, found before a pass that asks for them: what one
// thread does here once, every thread of a pass would do anew for each tile.
#pragma once

#include "kernels/shared/params.h"
#include "kernels/shared/tile_span.h"

namespace attnlab::device {

// classes, and where it is not null turn_after, the tile of keys that the rows see before this one
// (negative: none): (batch, m_blocks, n_blocks), or (batch, n_blocks, m_blocks). A thread a tile.
__device__ inline void classify_tiles(const Params& params, const Tiling& tiling, TileOrder order,
                                      TileClass* classes, i32* turn_after) {
  const u32 m_blocks = static_cast<u32>(tiling.m_blocks(params.shape.seqlen_q));
  const u32 n_blocks = static_cast<u32>(tiling.n_blocks(params.shape.seqlen_k));
  const u64 index = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const u64 batch = index / (static_cast<u64>(m_blocks) * n_blocks);
  if (batch >= static_cast<u64>(params.shape.batch)) return;
  const u32 inner = order == TileOrder::rows_first ? n_blocks : m_blocks;
  const u32 within = static_cast<u32>(index - batch * m_blocks * n_blocks);
  const i64 outer_block = within / inner, inner_block = within % inner;
  const i64 m_block = order == TileOrder::rows_first ? outer_block : inner_block;
  const i64 n_block = order == TileOrder::rows_first ? inner_block : outer_block;
  const Mask mask = batch_entry(params, static_cast<i64>(batch)).mask;
  const Range rows = tile_range(m_block, tiling.block_m, mask.seqlen_q);
  classes[index] = classify(mask, rows, {n_block * tiling.block_n, (n_block + 1) * tiling.block_n});
  if (turn_after == nullptr) return;
  turn_after[index] = static_cast<i32>(previous_n_block(mask, rows, tiling.block_n, n_block - 1));
}

}  // namespace attnlab::device
