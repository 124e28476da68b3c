// Sums dQ of a backward pass whose work items are columns of keys: each of them owes a part of dQ
// to every query row that sees its keys. The parts are added to fp32 sums in HBM; a pass over the
// rows before clears them and forms delta, a pass after brings them to dQ. Source:
// FlashAttention-2, Algorithm 2 (delta is its D).
#pragma once

#include <functional>

#include "kernels/cpu/dq_semaphores.h"
#include "kernels/cpu/runner.h"

namespace attnlab::cpu {

class DqSums {
 public:
  // Order is that in which the parts of one tile of rows are added: as they come, or by ascending
  // keys, which makes the rounding of the sum reproducible.
  enum class Order : u8 { any, by_keys };

  struct Options {
    i64 block_m = 0;    // rows of a tile
    i64 item_keys = 0;  // neighbouring keys that a work item holds
    Order order = Order::any;
  };

  // Serves one launch. `hbm` has bytes(problem) bytes, aligned to 256; counting does not use it.
  DqSums(const Problem& problem, const Options& options, void* hbm);

  static u64 bytes(const Problem& problem);

  // RowTiles is the fast memory of the passes over rows.
  struct RowTiles {
    Tile sO;      // (block_m, head_dim)
    Tile sDO;     // (block_m, head_dim)
    Tile sDQ;     // (block_m, head_dim)
    Tile sDelta;  // (1, block_m)
  };
  // Computes delta = rowsum(dO * O) and sets sums = 0, before all work items.
  void prepare_rows(const SliceTensors& slice, i64 m_block, const RowTiles& fast,
                    Executor& executor);
  // Returns delta of rows, fp32.
  GlobalRows delta(const SliceTensors& slice, Range rows) const;
  // Adds sum += dq (block_m, head_dim) of work item `item` (keys from item * item_keys on), in the
  // order asked for, once for each tile of rows that sees the item's keys. Items must be handed out
  // by ascending keys.
  void add(const SliceTensors& slice, i64 m_block, i64 item, const Tile& dq, Executor& executor);
  // Stores dQ = softmax_scale * sum, in the storage type, after all work items.
  void finish_rows(const SliceTensors& slice, i64 m_block, const RowTiles& fast,
                   Executor& executor) const;

  // Runs all work items, `add_parts`, between the passes over the tiles of `rows`, whose fast
  // memory `tiles_of` carves.
  void run_around(const WorkGrid& rows, Runner& runner,
                  const std::function<RowTiles(TileCarver)>& tiles_of,
                  const std::function<void()>& add_parts);

 private:
  GlobalRows sum(const SliceTensors& slice, Range rows) const;
  i64 tile(const SliceTensors& slice, i64 m_block) const {
    return slice.index() * m_blocks_ + m_block;
  }

  Options options_;
  i64 m_blocks_;
  float softmax_scale_;
  float* delta_;  // (batch, num_heads_q, seqlen_q)
  float* sum_;    // (batch, num_heads_q, seqlen_q, head_dim)
  DqSemaphores semaphores_;
};

// Runs the passes of the problem in order, the backward on sums of dQ in `hbm`.
template <auto kForward, auto kBackward, class Work>
void run_passes(const Problem& problem, const Work& work, const DqSums::Options& options, void* hbm,
                Runner& runner) {
  if (problem.runs_forward()) kForward(work, runner);
  if (problem.pass == Pass::fwd) return;
  DqSums dq_sums(problem, options, hbm);
  kBackward(work, dq_sums, runner);
}

}  // namespace attnlab::cpu
