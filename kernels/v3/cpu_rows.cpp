// What v3's backward does row by row, before and after the work items of its key tiles.
#include "kernels/v3/cpu_passes.h"

namespace attnlab::v3 {

void prepare_rows(const Work& work, const BackwardState& state, const Mask& mask,
                  const cpu::SliceTensors& slice, i64 m_block, const BackwardMemory& fast,
                  cpu::Executor& executor) {
  const Range rows = tile_range(m_block, work.tiling.block_m, mask.seqlen_q);
  if (rows.empty()) return;
  const cpu::Tile sO = at(fast.sQ, 0).top(rows.size()), sDO = at(fast.sDO, 0);
  const cpu::Tile sDelta = at(fast.sDelta, 0), sDQ = at(fast.sDQ, 0);
  executor.load(slice.o(rows), sO);
  executor.load(slice.dout(rows), sDO);
  executor.row_dots(sO, sDO, sDelta.data);
  executor.store(sDelta, slice.statistic(Operand::delta, state.delta, rows));
  executor.fill(sDQ, 0.0f);
  executor.store(sDQ, slice.accumulator(Operand::dq, state.dq_sum, rows));
}

void finish_rows(const Work& work, const BackwardState& state, const Mask& mask,
                 const cpu::SliceTensors& slice, i64 m_block, const BackwardMemory& fast,
                 cpu::Executor& executor) {
  const Range rows = tile_range(m_block, work.tiling.block_m, mask.seqlen_q);
  if (rows.empty()) return;
  const cpu::Tile sDQ = at(fast.sDQ, 0);
  executor.load(slice.accumulator(Operand::dq, state.dq_sum, rows), sDQ);
  executor.scale(sDQ, work.shape.softmax_scale);
  executor.store(sDQ, slice.dq(rows));
}

}  // namespace attnlab::v3
