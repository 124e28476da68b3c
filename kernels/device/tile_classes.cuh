// Finds before a pass what it looks up of tiles under a block pattern: what one thread does here
// once, every thread of a pass would do anew for each tile.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/shared/tile_classes_arguments.h"

namespace attnlab::device {

// Fills entries, and where it is not null seen_before: the tile of keys that the rows see before
// this one (negative: none). Both are (batch, m_blocks, n_blocks) or (batch, n_blocks, m_blocks). A
// warp has a row of them, and goes through it from its end, 32 tiles at a time.
__device__ inline void classify_tiles(const TileClassesArguments& arguments) {
  const auto& [params, tiling, order, entries, seen_before] = arguments;
  const u32 m_blocks = static_cast<u32>(tiling.m_blocks(params.shape.seqlen_q));
  const u32 n_blocks = static_cast<u32>(tiling.n_blocks(params.shape.seqlen_k));
  const bool rows_first = order == TileOrder::rows_first;
  const u32 outer = rows_first ? m_blocks : n_blocks;
  const i32 inner = static_cast<i32>(rows_first ? n_blocks : m_blocks);
  const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const u32 batch = warp / outer;
  if (batch >= static_cast<u32>(params.shape.batch)) return;
  const i64 outer_block = warp % outer;
  const Mask mask = batch_entry(params, batch).mask;

  i32 next_seen = inner;
  for (i32 first = round_up(inner, kWarp) - kWarp; first >= 0; first -= kWarp) {
    const i32 tile = first + lane;
    const i64 m_block = rows_first ? outer_block : tile;
    const i64 n_block = rows_first ? tile : outer_block;
    const Range rows = tile_range(m_block, tiling.block_m, mask.seqlen_q);
    const Range keys = {n_block * tiling.block_n, (n_block + 1) * tiling.block_n};
    const TileClass own = tile < inner ? classify(mask, rows, keys) : TileClass::empty;
    const u32 seen = __ballot_sync(0xFFFFFFFFu, own != TileClass::empty);
    if (tile < inner) {
      const i64 index = static_cast<i64>(warp) * inner + tile;
      const u32 from_here = seen >> lane;
      const i32 next = from_here == 0 ? next_seen : tile + __ffs(static_cast<i32>(from_here)) - 1;
      entries[index] = {next - tile, own == TileClass::partial};
      if (seen_before != nullptr) {
        seen_before[index] =
            static_cast<i32>(previous_n_block(mask, rows, tiling.block_n, n_block - 1));
      }
    }
    if (seen != 0) next_seen = first + __ffs(static_cast<i32>(seen)) - 1;
  }
}

}  // namespace attnlab::device
