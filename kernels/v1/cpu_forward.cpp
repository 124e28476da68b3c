// Implements v1's forward on the CPU: Algorithm 1, with the mask and dropout of Algorithm 2 and the
// empty blocks of Algorithm 5. Line numbers are those of Algorithm 1.
//
// Scores are kept transposed (keys x query rows): one SIMD lane is one query row, so the maximum
// and the sum of a row need no exchange between lanes.
#include "kernels/shared/softmax.h"
#include "kernels/v1/cpu_passes.h"

namespace attnlab::v1 {

using cpu::Executor;
using cpu::Tile;

ForwardMemory carve_forward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim) {
  return {.sQ = carver.tile(tiling.block_m, head_dim),
          .sQt = carver.tile(head_dim, tiling.block_m),
          .sK = carver.tile(tiling.block_n, head_dim),
          .sV = carver.tile(tiling.block_n, head_dim),
          .sSt = carver.tile(tiling.block_n, tiling.block_m),
          .sO = carver.tile(tiling.block_m, head_dim),
          .sPV = carver.tile(tiling.block_m, head_dim),
          .sM = carver.tile(1, tiling.block_m),
          .sL = carver.tile(1, tiling.block_m),
          .sTileSum = carver.tile(1, tiling.block_m),
          .sRescale = carver.tile(1, tiling.block_m)};
}

namespace {

// Computes the natural-log lse of a tile of rows from their m and l; it is -inf where l = 0.
void row_lse(const Tile& m, const Tile& l, const Shape& shape, const Tile& lse,
             const Executor& executor) {
  if (executor.counts_only()) return;
  for (i64 r = 0; r < lse.columns; ++r) {
    lse.data[r] = attnlab::lse(OnlineSoftmax{.max = m.data[r], .sum = l.data[r]}, shape);
  }
}

// Line 2: sets O = 0, l = 0, m = -inf, which finishes rows that no key tile sees.
void initialise(const Work& work, const HbmState& state, const cpu::SliceTensors& slice,
                const ForwardMemory& fast, Executor& executor) {
  const Mask& mask = slice.mask();
  const auto [block_m, block_n] = work.tiling;
  executor.fill(fast.sO, 0.0f);
  executor.fill(fast.sL, 0.0f);
  executor.fill(fast.sM, -kInfinity);
  for (i64 m_block = 0; m_block < work.tiling.m_blocks(mask.seqlen_q); ++m_block) {
    const Range rows = tile_range(m_block, block_m, mask.seqlen_q);
    const bool seen = sees_keys(mask, rows, block_n, 0);
    const cpu::GlobalRows o = slice.o(rows);
    executor.store(fast.sO, seen ? running_sum(work, state, slice, o, rows) : o);
    executor.store(fast.sL, slice.statistic(Operand::l, state.l, rows));
    executor.store(fast.sM, slice.statistic(Operand::m, state.m, rows));
    if (!seen) executor.store(fast.sM, slice.lse(rows));
  }
}

// Does lines 11 and 12, where m is m_new already and tile_sum and PV are relative to it:
//   l_new = e^(m - m_new) l + tile_sum,   O = diag(l_new)^-1 (diag(e^(m - m_new) l) O + PV);
// a row that has seen nothing yet keeps O = 0. PV lacks the scale of what dropout keeps.
void renormalise(const Tile& o, const Tile& pv, const Tile& l, const Tile& tile_sum,
                 const Tile& rescale, float keep_scale, const Executor& executor) {
  if (executor.counts_only()) return;
  for (i64 r = 0; r < o.rows; ++r) {
    const float old_sum = rescale.data[r] * l.data[r];
    const float sum = old_sum + tile_sum.data[r];
    const float old_weight = sum == 0.0f ? 0.0f : old_sum / sum;
    const float tile_weight = sum == 0.0f ? 0.0f : keep_scale / sum;
    float* o_row = o.data + r * o.ld;
    const float* pv_row = pv.data + r * pv.ld;
    for (i64 c = 0; c < o.columns; ++c) o_row[c] = old_weight * o_row[c] + tile_weight * pv_row[c];
    l.data[r] = sum;
  }
}

}  // namespace

void forward(const Work& work, const HbmState& state, const cpu::SliceTensors& slice,
             const ForwardMemory& fast, Executor& executor) {
  const Mask& mask = slice.mask();
  const auto& [sQ, sQt, sK, sV, sSt, sO, sPV, sM, sL, sTileSum, sRescale] = fast;
  const auto [block_m, block_n] = work.tiling;
  initialise(work, state, slice, fast, executor);

  for (i64 n_block = 0; n_block < work.tiling.n_blocks(mask.seqlen_k); ++n_block) {  // line 5
    const Range tile_keys = {n_block * block_n, (n_block + 1) * block_n};
    const Range keys = intersect(tile_keys, {0, mask.valid_k});
    const Range m_blocks = m_block_range(mask, keys, block_m);
    executor.skip(work.tiling.m_blocks(mask.seqlen_q) - m_blocks.size());
    if (m_blocks.empty()) continue;
    executor.load(slice.k(keys), sK);  // line 6
    executor.load(slice.v(keys), sV);

    for (i64 m_block = m_blocks.begin; m_block < m_blocks.end; ++m_block) {  // line 7
      const Range rows = tile_range(m_block, block_m, mask.seqlen_q);
      const TileClass tile_class = classify(mask, rows, tile_keys);
      executor.visit(tile_class, work.tiling, work.shape.head_dim, kForwardProducts);
      if (tile_class == TileClass::empty) continue;  // Algorithm 5
      const cpu::GlobalRows gO = slice.o(rows), gSum = running_sum(work, state, slice, gO, rows);
      const cpu::GlobalRows gL = slice.statistic(Operand::l, state.l, rows);
      const cpu::GlobalRows gM = slice.statistic(Operand::m, state.m, rows);
      const Tile scores = sSt.top(keys.size());
      const cpu::ScoreTile score_tile = {.tile = scores,
                                         .rows = rows,
                                         .keys = keys,
                                         .orientation = cpu::Orientation::keys_by_rows};

      executor.load(slice.q(rows), sQ);  // line 8
      executor.load(gSum, sO);
      executor.load(gL, sL);
      executor.load(gM, sM);
      executor.transpose(sQ, sQt);
      executor.multiply(sK.top(keys.size()), sQt, scores);  // line 9: S^T = K Q^T
      if (tile_class == TileClass::partial) executor.hide(mask, score_tile);
      executor.fill(sTileSum, 0.0f);
      executor.softmax_step(  // lines 10, 11: m_new, P^T = exp(S^T - m_new), its row sums
          scores, work.shape.softmax_scale_log2,
          {.max = sM.data, .sum = sTileSum.data, .rescale = sRescale.data});
      if (work.dropout.threshold > 0) executor.drop(work.dropout, slice.index(), score_tile);
      executor.round(scores, work.problem.dtype);
      executor.multiply(transposed(scores), sV, sPV);  // P V
      renormalise(sO.top(rows.size()), sPV, sL, sTileSum, sRescale, work.dropout.keep_scale,
                  executor);

      const bool last = !sees_keys(mask, rows, block_n, n_block + 1);
      executor.store(sO, last ? gO : gSum);  // line 12
      executor.store(sL, gL);                // line 13
      executor.store(sM, gM);
      if (!last) continue;
      row_lse(sM, sL, work.shape, sTileSum, executor);
      executor.store(sTileSum, slice.lse(rows));
    }
  }
}

}  // namespace attnlab::v1
