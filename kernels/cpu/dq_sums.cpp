#include "kernels/cpu/dq_sums.h"

namespace attnlab::cpu {
namespace {

u64 delta_bytes(const Problem& problem) {
  return round_up<u64>(static_cast<u64>(problem.elements_lse()) * sizeof(float), 256);
}

}  // namespace

DqSums::DqSums(const Problem& problem, const Options& options, void* hbm)
    : options_(options),
      m_blocks_(ceil_div(problem.seqlen_q, options.block_m)),
      softmax_scale_(make_shape(problem).softmax_scale),
      delta_(static_cast<float*>(hbm)),
      sum_(static_cast<float*>(behind(hbm, delta_bytes(problem)))),
      semaphores_(problem.batch * problem.num_heads_q * m_blocks_) {}

u64 DqSums::bytes(const Problem& problem) {
  const u64 sums = static_cast<u64>(problem.elements_lse() * problem.head_dim) * sizeof(float);
  return delta_bytes(problem) + sums;
}

GlobalRows DqSums::delta(const SliceTensors& slice, Range rows) const {
  return slice.statistic(Operand::delta, delta_, rows);
}

GlobalRows DqSums::sum(const SliceTensors& slice, Range rows) const {
  return slice.accumulator(Operand::dq, sum_, rows);
}

void DqSums::prepare_rows(const SliceTensors& slice, i64 m_block, const RowTiles& fast,
                          Executor& executor) {
  const Range rows = tile_range(m_block, options_.block_m, slice.mask().seqlen_q);
  if (rows.empty()) return;  // a packed entry shorter than the longest
  const Tile o = fast.sO.top(rows.size());
  executor.load(slice.o(rows), o);
  executor.load(slice.dout(rows), fast.sDO);
  executor.row_dots(o, fast.sDO, fast.sDelta.data);
  executor.store(fast.sDelta, delta(slice, rows));
  executor.fill(fast.sDQ, 0.0f);
  executor.store(fast.sDQ, sum(slice, rows));
  if (!executor.counts_only()) {
    semaphores_.set(tile(slice, m_block), next_n_block(slice.mask(), rows, options_.item_keys, 0));
  }
}

void DqSums::add(const SliceTensors& slice, i64 m_block, i64 item, const Tile& dq,
                 Executor& executor) {
  const Range rows = tile_range(m_block, options_.block_m, slice.mask().seqlen_q);
  const auto accumulate = [&] { executor.accumulate(dq, sum(slice, rows)); };
  if (executor.counts_only()) return accumulate();
  if (options_.order == Order::any) return semaphores_.any_order(tile(slice, m_block), accumulate);
  semaphores_.in_order(tile(slice, m_block), item,
                       next_n_block(slice.mask(), rows, options_.item_keys, item + 1), accumulate);
}

void DqSums::finish_rows(const SliceTensors& slice, i64 m_block, const RowTiles& fast,
                         Executor& executor) const {
  const Range rows = tile_range(m_block, options_.block_m, slice.mask().seqlen_q);
  if (rows.empty()) return;
  executor.load(sum(slice, rows), fast.sDQ);
  executor.scale(fast.sDQ, softmax_scale_);
  executor.store(fast.sDQ, slice.dq(rows));
}

void DqSums::run_around(const WorkGrid& rows, Runner& runner,
                        const std::function<RowTiles(TileCarver)>& tiles_of,
                        const std::function<void()>& add_parts) {
  runner.slices(rows,
                [&](const SliceTensors& slice, i64 m_block, TileCarver carver, Executor& executor) {
                  prepare_rows(slice, m_block, tiles_of(carver), executor);
                });
  add_parts();
  runner.slices(rows,
                [&](const SliceTensors& slice, i64 m_block, TileCarver carver, Executor& executor) {
                  finish_rows(slice, m_block, tiles_of(carver), executor);
                });
}

}  // namespace attnlab::cpu
