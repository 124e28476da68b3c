// Holds what tests ask of v3's work items on a GPU.
#pragma once

#include "kernels/shared/mask.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Returns how many tiles of keys a work item multiplies: those that any row of its tile `m_block`
// of rows sees.
inline i64 num_tiles(const Mask& mask, const ForwardConfig& config, i64 m_block) {
  const Range rows = tile_range(m_block, config.block_m(), mask.seqlen_q);
  const i64 end = n_block_range(mask, rows, config.block_n).end;
  i64 tiles = 0;
  for (i64 tile = next_n_block(mask, rows, config.block_n, 0); tile < end; ++tiles) {
    tile = next_n_block(mask, rows, config.block_n, tile + 1);
  }
  return tiles;
}

}  // namespace attnlab::v3
