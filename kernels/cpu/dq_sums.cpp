#include "kernels/cpu/dq_sums.h"

#include <cstddef>

namespace attnlab::cpu {
namespace {

u64 delta_bytes(const Problem& problem) {
  return round_up<u64>(static_cast<u64>(problem.elements_lse()) * sizeof(float), 256);
}

}  // namespace

DqSums::DqSums(const Problem& problem, const Shape& shape, i64 block_m, i64 item_keys, Order order)
    : block_m_(block_m),
      item_keys_(item_keys),
      m_blocks_(ceil_div(problem.seqlen_q, block_m)),
      order_(order),
      softmax_scale_(shape.softmax_scale),
      delta_bytes_(delta_bytes(problem)),
      turns_(problem.batch * problem.num_heads_q * m_blocks_) {}

u64 DqSums::bytes(const Problem& problem) {
  const u64 sums = static_cast<u64>(problem.elements_lse() * problem.head_dim) * sizeof(float);
  return delta_bytes(problem) + sums;
}

void DqSums::attach(void* hbm) {
  delta_ = static_cast<float*>(hbm);
  sum_ = reinterpret_cast<float*>(static_cast<std::byte*>(hbm) + delta_bytes_);
}

GlobalRows DqSums::delta(const SliceTensors& slice, Range rows) const {
  return slice.statistic(Operand::delta, delta_, rows);
}

GlobalRows DqSums::sum(const SliceTensors& slice, Range rows) const {
  return slice.accumulator(Operand::dq, sum_, rows);
}

void DqSums::prepare_rows(const SliceTensors& slice, const Mask& mask, i64 m_block,
                          const RowTiles& fast, Executor& executor) {
  const Range rows = tile_range(m_block, block_m_, mask.seqlen_q);
  if (rows.empty()) return;  // a packed entry shorter than the longest
  const Tile o = fast.sO.top(rows.size());
  executor.load(slice.o(rows), o);
  executor.load(slice.dout(rows), fast.sDO);
  executor.row_dots(o, fast.sDO, fast.sDelta.data);
  executor.store(fast.sDelta, delta(slice, rows));
  executor.fill(fast.sDQ, 0.0f);
  executor.store(fast.sDQ, sum(slice, rows));
  if (!executor.counts_only()) {
    turns_.set_turn(tile(slice, m_block), next_n_block(mask, rows, item_keys_, 0));
  }
}

void DqSums::add(const SliceTensors& slice, const Mask& mask, i64 m_block, i64 item, const Tile& dq,
                 Executor& executor) {
  const Range rows = tile_range(m_block, block_m_, mask.seqlen_q);
  const auto accumulate = [&] { executor.accumulate(dq, sum(slice, rows)); };
  if (executor.counts_only()) return accumulate();
  if (order_ == Order::any) return turns_.any_order(tile(slice, m_block), accumulate);
  turns_.in_order(tile(slice, m_block), item, next_n_block(mask, rows, item_keys_, item + 1),
                  accumulate);
}

void DqSums::finish_rows(const SliceTensors& slice, const Mask& mask, i64 m_block,
                         const RowTiles& fast, Executor& executor) const {
  const Range rows = tile_range(m_block, block_m_, mask.seqlen_q);
  if (rows.empty()) return;
  executor.load(sum(slice, rows), fast.sDQ);
  executor.scale(fast.sDQ, softmax_scale_);
  executor.store(fast.sDQ, slice.dq(rows));
}

}  // namespace attnlab::cpu
