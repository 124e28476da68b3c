// Implements v2's forward on the CPU. Against v1 the loops are swapped: query tiles are outside,
// one independent work item each, key tiles inside. So O, the row maximum and the row sum stay in
// fast memory for the whole row and reach HBM once; O stays unnormalised until one final scale;
// tiles that nobody sees are skipped and only tiles on the mask's border pay for masking.
//
// Tiles are kept transposed (keys x query rows, head_dim x query rows): one SIMD lane is one query
// row, as one thread is on a GPU, so maximum, sum and rescaling need no exchange between lanes, and
// K and V are read as they lie in memory.
#include "kernels/v2/cpu_passes.h"

namespace attnlab::v2 {

using cpu::Accumulate;
using cpu::Tile;

ForwardMemory carve_forward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim) {
  return {.sQ = carver.tile(tiling.block_m, head_dim),
          .sQt = carver.tile(head_dim, tiling.block_m),
          .sKV = carver.tile(tiling.block_n, head_dim),
          .sSt = carver.tile(tiling.block_n, tiling.block_m),
          .sOt = carver.tile(head_dim, tiling.block_m),
          .sMax = carver.tile(1, tiling.block_m),
          .sSum = carver.tile(1, tiling.block_m),
          .sRescale = carver.tile(1, tiling.block_m)};
}

void forward(const Work& work, const cpu::SliceTensors& slice, i64 m_block,
             const ForwardMemory& fast, cpu::Executor& executor) {
  const auto& [sQ, sQt, sKV, sSt, sOt, sMax, sSum, sRescale] = fast;
  const auto [block_m, block_n] = work.tiling;
  const Mask& mask = slice.mask();
  const i64 head_dim = work.shape.head_dim;
  const Range rows = tile_range(m_block, block_m, mask.seqlen_q);
  if (rows.empty()) return;  // a packed entry shorter than the longest
  const Range n_blocks = n_block_range(mask, rows, block_n);
  const cpu::RowState state = {.max = sMax.data, .sum = sSum.data, .rescale = sRescale.data};

  executor.load(slice.q(rows), sQ);
  executor.transpose(sQ, sQt);
  executor.fill(sMax, -kInfinity);
  executor.fill(sSum, 0.0f);
  executor.fill(sOt, 0.0f);
  executor.skip(work.tiling.n_blocks(mask.seqlen_k) - n_blocks.size());

  for (i64 n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
    const Range tile_keys = {n_block * block_n, (n_block + 1) * block_n};
    const TileClass tile_class = classify(mask, rows, tile_keys);
    executor.visit(tile_class, work.tiling, head_dim, kForwardProducts);
    if (tile_class == TileClass::empty) continue;
    const Range keys = intersect(tile_keys, {0, mask.valid_k});
    const Tile key_tile = sKV.top(keys.size());
    const Tile scores = sSt.top(keys.size());
    const cpu::ScoreTile score_tile = {
        .tile = scores, .rows = rows, .keys = keys, .orientation = cpu::Orientation::keys_by_rows};

    executor.load(slice.k(keys), sKV);
    executor.multiply(key_tile, sQt, scores);  // S^T = K Q^T
    if (tile_class == TileClass::partial) executor.hide(mask, score_tile);
    executor.softmax_step(scores, work.shape.softmax_scale_log2, state);  // P^T = exp(S^T - max)
    if (work.dropout.threshold > 0) executor.drop(work.dropout, slice.index(), score_tile);
    executor.round(scores, work.problem.dtype);
    executor.load(slice.v(keys), sKV);
    executor.multiply(transposed(key_tile), scores, sOt, Accumulate::rescaled,
                      sRescale.data);  // O^T = O^T * rescale + V^T P^T
  }

  work.saved.store(slice, rows, state, work.shape);
  const Tile accumulator = sOt.left(rows.size());
  executor.finish_rows(accumulator, state, work.shape, work.dropout.keep_scale);  // O^T / sum; lse
  executor.transpose(accumulator, sQ);
  executor.store(sQ, slice.o(rows));
  executor.store(sMax, slice.lse(rows));
}

}  // namespace attnlab::v2
