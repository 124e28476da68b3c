// Implements v2's backward on the CPU. Key tiles are outside, one work item each, so dK and dV stay
// in fast memory for the whole column block and reach HBM once; query tiles are inside. P is
// computed again from lse, which costs one product and saves N^2 bytes. dQ belongs to the rows:
// every work item adds its part to fp32 sums in HBM, in any order or, deterministic, by key tiles.
//
// Tiles are (query rows x keys) here: Q and dO enter every product as they lie in memory, K and V
// are transposed once a work item, and the row's softmax and delta are one broadcast each.
#include "kernels/v2/cpu_passes.h"

namespace attnlab::v2 {

using cpu::Accumulate;
using cpu::Tile;

BackwardMemory carve_backward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim) {
  return {.sQ = carver.tile(tiling.block_m, head_dim),
          .sDO = carver.tile(tiling.block_m, head_dim),
          .sDQ = carver.tile(tiling.block_m, head_dim),
          .sK = carver.tile(tiling.block_n, head_dim),
          .sKt = carver.tile(head_dim, tiling.block_n),
          .sVt = carver.tile(head_dim, tiling.block_n),
          .sP = carver.tile(tiling.block_m, tiling.block_n),
          .sDS = carver.tile(tiling.block_m, tiling.block_n),
          .sDK = carver.tile(tiling.block_n, head_dim),
          .sDV = carver.tile(tiling.block_n, head_dim),
          .sMax = carver.tile(1, tiling.block_m),
          .sSum = carver.tile(1, tiling.block_m),
          .sDelta = carver.tile(1, tiling.block_m)};
}

cpu::DqSums::RowTiles row_tiles(const BackwardMemory& fast) {
  return {.sO = fast.sQ, .sDO = fast.sDO, .sDQ = fast.sDQ, .sDelta = fast.sDelta};
}

void backward(const Work& work, cpu::DqSums& dq_sums, std::span<const cpu::SliceTensors> group,
              i64 n_block, const BackwardMemory& fast, cpu::Executor& executor) {
  const auto& [sQ, sDO, sDQ, sK, sKt, sVt, sP, sDS, sDK, sDV, sMax, sSum, sDelta] = fast;
  const auto [block_m, block_n] = work.tiling;
  const Mask& mask = group.front().mask();
  const i64 head_dim = work.shape.head_dim;
  const Range tile_keys = tile_range(n_block, block_n, mask.seqlen_k);
  if (tile_keys.empty()) return;  // a packed entry shorter than the longest
  const Range keys = intersect(tile_keys, {0, mask.valid_k});
  const Range m_blocks = m_block_range(mask, keys, block_m);
  const Tile dK = sDK.top(keys.size()), dV = sDV.top(keys.size());
  const i64 heads = static_cast<i64>(group.size());
  executor.skip(heads * (work.tiling.m_blocks(mask.seqlen_q) - m_blocks.size()));

  if (!m_blocks.empty()) {
    executor.load(group.front().k(keys), sK);
    executor.transpose(sK, sKt);
    executor.load(group.front().v(keys), sDV);
    executor.transpose(sDV, sVt);
  }
  executor.fill(sDK, 0.0f);
  executor.fill(sDV, 0.0f);

  for (const cpu::SliceTensors& slice : group) {
    for (i64 m_block = m_blocks.begin; m_block < m_blocks.end; ++m_block) {
      const Range rows = tile_range(m_block, block_m, mask.seqlen_q);
      const TileClass tile_class =
          classify(mask, rows, {n_block * block_n, (n_block + 1) * block_n});
      executor.visit(tile_class, work.tiling, head_dim, kBackwardProducts);
      if (tile_class == TileClass::empty) continue;
      const Tile q = sQ.top(rows.size()), dO = sDO.top(rows.size()), dQ = sDQ.top(rows.size());
      const Tile p = sP.top(rows.size()).left(keys.size());
      const Tile dS = sDS.top(rows.size()).left(keys.size());
      const cpu::ScoreTile score_tile = {.tile = p, .rows = rows, .keys = keys};

      executor.load(slice.q(rows), sQ);
      work.saved.load(slice, rows, sMax, sSum, executor);
      executor.multiply(q, sKt, p);  // S = Q K^T
      if (tile_class == TileClass::partial) executor.hide(mask, score_tile);
      executor.recompute_p(p, work.shape.softmax_scale_log2,  // P = exp(S - max) / sum
                           {.max = sMax.data, .sum = sSum.data});
      if (work.dropout.threshold > 0) {
        executor.mark_dropped(work.dropout, slice.index(), score_tile);
      }
      executor.load(slice.dout(rows), sDO);
      executor.load(dq_sums.delta(slice, rows), sDelta);
      executor.multiply(dO, sVt, dS);  // dP = dO V^T
      // dS = P (Z dP - delta)
      executor.score_gradient(p, dS, sDelta.data, work.dropout.keep_scale);
      if (work.dropout.threshold > 0) executor.clear_dropped(p);
      executor.round(p, work.problem.dtype);
      executor.round(dS, work.problem.dtype);
      executor.multiply(transposed(p), dO, dV, Accumulate::add);  // dV += P^T dO
      executor.multiply(transposed(dS), q, dK, Accumulate::add);  // dK += dS^T Q
      executor.multiply(dS, sK, dQ);                              // dQ  = dS K
      dq_sums.add(slice, m_block, n_block, dQ, executor);
    }
  }

  executor.scale(sDK, work.shape.softmax_scale);
  executor.scale(sDV, work.dropout.keep_scale);
  executor.store(sDK, group.front().dk(tile_keys));
  executor.store(sDV, group.front().dv(tile_keys));
}

}  // namespace attnlab::v2
