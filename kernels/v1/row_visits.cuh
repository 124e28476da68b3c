// Says how a pass goes through the tiles of keys: which visits a tile of rows first and which last,
// found before the pass; rows that none visits; what is known of each tile.
#pragma once

#include "kernels/device/storage.cuh"
#include "kernels/device/team.cuh"
#include "kernels/shared/params.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// Fills visits (batch, m_blocks): a warp has a tile of rows, tests 32 tiles of keys at a time.
__device__ inline void find_visits(const VisitsArguments& arguments) {
  using device::kWarp;
  const auto& [params, tiling, visits] = arguments;
  const u32 m_blocks = static_cast<u32>(tiling.m_blocks(params.shape.seqlen_q));
  const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
  const i32 lane = static_cast<i32>(threadIdx.x % kWarp);
  if (warp >= static_cast<u32>(params.shape.batch) * m_blocks) return;
  const Mask mask = batch_entry(params, warp / m_blocks).mask;
  const Range rows = tile_range(warp % m_blocks, tiling.block_m, mask.seqlen_q);
  const Range n_blocks = n_block_range(mask, rows, tiling.block_n);
  RowVisits of_rows;
  for (i64 first = n_blocks.begin; first < n_blocks.end; first += kWarp) {
    const i64 own = first + lane;
    const Range keys = {own * tiling.block_n, (own + 1) * tiling.block_n};
    const u32 seen = __ballot_sync(
        0xFFFFFFFFu, own < n_blocks.end && classify(mask, rows, keys) != TileClass::empty);
    if (seen == 0) continue;
    const i32 base = static_cast<i32>(first);
    if (!of_rows.any()) of_rows.first = base + __ffs(static_cast<i32>(seen)) - 1;
    of_rows.last = base + kWarp - 1 - __clz(static_cast<i32>(seen));
  }
  if (lane == 0) visits[warp] = of_rows;
}

// Sets O or dQ to 0 for rows in tiles that nobody visits; the warps of the block share them. gRows
// is the slice's first row; finish(row) does what else is to be done for it.
template <i32 kWarps, class T, class Finish>
__device__ void finish_unseen(const RowVisits* visits, const Mask& mask, i32 block_m, T* gRows,
                              i64 row_stride, i32 head_dim, const Finish& finish) {
  using namespace device;
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const i32 chunks = head_dim / kChunk;
  const i32 m_blocks = static_cast<i32>(ceil_div<i64>(mask.seqlen_q, block_m));
  for (i32 first = static_cast<i32>(threadIdx.x) / kWarp * kWarp; first < m_blocks;
       first += kWarps * kWarp) {  // each lane looks at one: they wait for memory together
    const i32 own = first + lane;
    u32 unseen = __ballot_sync(0xFFFFFFFFu, own < m_blocks && !visits[own].any());
    for (; unseen != 0; unseen &= unseen - 1) {
      const Range rows =
          tile_range(first + __ffs(static_cast<i32>(unseen)) - 1, block_m, mask.seqlen_q);
      for (i64 row = rows.begin + lane; row < rows.end; row += kWarp) {
        for (i32 chunk = 0; chunk < chunks; ++chunk) {
          *reinterpret_cast<uint4*>(gRows + row * row_stride + chunk * kChunk) = {0, 0, 0, 0};
        }
        finish(row);
      }
    }
  }
}

// Returns the tile of keys n_block. `block` is what all threads know of the work, of either pass.
template <class Config, class Block>
__device__ KeyTile key_tile(const Params& params, const Workspace& workspace, const Config& config,
                            const Block& block, i32 n_block) {
  const i64 n_blocks = ceil_div<i64>(params.shape.seqlen_k, config.block_n);
  const i64 first_entry = (block.batch * n_blocks + n_block) * block.m_blocks;
  const i64 first_key = static_cast<i64>(n_block) * config.block_n;
  return {.n_block = n_block,
          .first_key = first_key,
          .key_offset = block.key_offset + first_key * params.shape.k.row,
          .tiles = rows_of_keys(
              block.mask, {first_key, first_key + config.block_n}, config.block_m,
              workspace.entries == nullptr ? nullptr : workspace.entries + first_entry)};
}

}  // namespace attnlab::v1
