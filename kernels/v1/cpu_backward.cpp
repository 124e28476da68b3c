// Implements v1's backward on the CPU: Algorithm 4, with its line numbers. dK_j and dV_j are summed
// in fast memory, dQ in HBM at every step; D = rowsum(dO * O) is computed anew at every step.
//
// Tiles are (query rows x keys), so K^T and V^T are formed once a key tile and the inner loop
// transposes nothing.
#include "kernels/v1/cpu_passes.h"

namespace attnlab::v1 {

using cpu::Accumulate;
using cpu::Executor;
using cpu::Tile;

BackwardMemory carve_backward(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim) {
  return {.sQ = carver.tile(tiling.block_m, head_dim),
          .sO = carver.tile(tiling.block_m, head_dim),
          .sDO = carver.tile(tiling.block_m, head_dim),
          .sDQ = carver.tile(tiling.block_m, head_dim),
          .sK = carver.tile(tiling.block_n, head_dim),
          .sKt = carver.tile(head_dim, tiling.block_n),
          .sVt = carver.tile(head_dim, tiling.block_n),
          .sP = carver.tile(tiling.block_m, tiling.block_n),
          .sDS = carver.tile(tiling.block_m, tiling.block_n),
          .sDK = carver.tile(tiling.block_n, head_dim),
          .sDV = carver.tile(tiling.block_n, head_dim),
          .sM = carver.tile(1, tiling.block_m),
          .sL = carver.tile(1, tiling.block_m),
          .sDelta = carver.tile(1, tiling.block_m)};
}

namespace {

// Line 5: sets dQ = 0, which finishes rows that no key tile sees.
void initialise(const Work& work, const HbmState& state, const cpu::SliceTensors& slice,
                const BackwardMemory& fast, Executor& executor) {
  const Mask& mask = slice.mask();
  const auto [block_m, block_n] = work.tiling;
  executor.fill(fast.sDQ, 0.0f);
  for (i64 m_block = 0; m_block < work.tiling.m_blocks(mask.seqlen_q); ++m_block) {
    const Range rows = tile_range(m_block, block_m, mask.seqlen_q);
    const cpu::GlobalRows dq = slice.dq(rows);
    const bool seen = sees_keys(mask, rows, block_n, 0);
    executor.store(fast.sDQ, seen ? running_sum(work, state, slice, dq, rows) : dq);
  }
}

}  // namespace

void backward(const Work& work, const HbmState& state, std::span<const cpu::SliceTensors> group,
              const BackwardMemory& fast, Executor& executor) {
  const Mask& mask = group.front().mask();
  const auto& [sQ, sO, sDO, sDQ, sK, sKt, sVt, sP, sDS, sDK, sDV, sM, sL, sDelta] = fast;
  const auto [block_m, block_n] = work.tiling;
  for (const cpu::SliceTensors& slice : group) {
    initialise(work, state, slice, fast, executor);
  }

  for (i64 n_block = 0; n_block < work.tiling.n_blocks(mask.seqlen_k); ++n_block) {  // line 6
    const Range tile_keys = {n_block * block_n, (n_block + 1) * block_n};
    const Range keys = intersect(tile_keys, {0, mask.valid_k});
    const Range m_blocks = m_block_range(mask, keys, block_m);
    const Tile dK = sDK.top(keys.size()), dV = sDV.top(keys.size());
    executor.skip(static_cast<i64>(group.size()) *
                  (work.tiling.m_blocks(mask.seqlen_q) - m_blocks.size()));
    if (!m_blocks.empty()) {  // line 7
      executor.load(group.front().k(keys), sK);
      executor.transpose(sK, sKt);
      executor.scale(sK, work.shape.softmax_scale);
      executor.load(group.front().v(keys), sDV);
      executor.transpose(sDV, sVt);
    }
    executor.fill(sDK, 0.0f);  // line 8
    executor.fill(sDV, 0.0f);

    for (const cpu::SliceTensors& slice : group) {
      for (i64 m_block = m_blocks.begin; m_block < m_blocks.end; ++m_block) {  // line 9
        const Range rows = tile_range(m_block, block_m, mask.seqlen_q);
        const TileClass tile_class = classify(mask, rows, tile_keys);
        executor.visit(tile_class, work.tiling, work.shape.head_dim, kBackwardProducts);
        if (tile_class == TileClass::empty) continue;
        const cpu::GlobalRows gDQ = slice.dq(rows);
        const cpu::GlobalRows gSum = running_sum(work, state, slice, gDQ, rows);
        const Tile q = sQ.top(rows.size()), dO = sDO.top(rows.size()), dQ = sDQ.top(rows.size());
        const Tile p = sP.top(rows.size()).left(keys.size());
        const Tile dS = sDS.top(rows.size()).left(keys.size());
        const cpu::ScoreTile score_tile = {.tile = p, .rows = rows, .keys = keys};

        executor.load(slice.q(rows), sQ);  // line 10
        executor.load(slice.o(rows), sO);
        executor.load(slice.dout(rows), sDO);
        executor.load(gSum, sDQ);
        executor.load(slice.statistic(Operand::l, state.l, rows), sL);
        executor.load(slice.statistic(Operand::m, state.m, rows), sM);
        executor.multiply(q, sKt, p);                                           // 11: S = Q K^T
        if (tile_class == TileClass::partial) executor.hide(mask, score_tile);  // 12
        executor.recompute_p(p, work.shape.softmax_scale_log2,                  // 13:
                             {.max = sM.data, .sum = sL.data});                 // P = e^(S-m) / l
        if (work.dropout.threshold > 0) {                                       // 14: Z
          executor.mark_dropped(work.dropout, slice.index(), score_tile);
        }
        executor.multiply(dO, sVt, dS);                                        // 17: dP = dO V^T
        executor.row_dots(sO.top(rows.size()), dO, sDelta.data);               // 19: D
        executor.score_gradient(p, dS, sDelta.data, work.dropout.keep_scale);  // 18, 20: dS
        if (work.dropout.threshold > 0) executor.clear_dropped(p);             // 15: P Z
        executor.round(p, work.problem.dtype);
        executor.round(dS, work.problem.dtype);
        executor.multiply(transposed(p), dO, dV, Accumulate::add);  // 16: dV += P^T dO
        executor.multiply(dS, sK, dQ, Accumulate::add);             // 21: dQ += dS scale K
        const bool last = !sees_keys(mask, rows, block_n, n_block + 1);
        executor.store(sDQ, last ? gDQ : gSum);
        executor.multiply(transposed(dS), q, dK, Accumulate::add);  // 22: dK += dS^T Q
      }
    }

    const Range written_keys = tile_range(n_block, block_n, mask.seqlen_k);
    executor.scale(sDK, work.shape.softmax_scale);
    executor.scale(sDV, work.dropout.keep_scale);
    executor.store(sDK, group.front().dk(written_keys));  // line 24
    executor.store(sDV, group.front().dv(written_keys));
  }
}

}  // namespace attnlab::v1
