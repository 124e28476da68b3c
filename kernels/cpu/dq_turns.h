// Who may add to which rows of dQ, and when. A backward pass that works on column blocks of keys
// adds to one row of dQ from many work items; a GPU uses atomics, or turns where results must not
// depend on the order.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "kernels/shared/base.h"

namespace attnlab::cpu {

class DqTurns {
 public:
  // `tiles` tiles of query rows, numbered over the whole problem.
  explicit DqTurns(i64 tiles)
      : turns_(std::make_unique<std::atomic<i64>[]>(static_cast<std::size_t>(tiles))) {}

  // Runs add() while nobody else adds to this tile: the order is whoever comes first.
  template <class Add>
  void any_order(i64 tile, const Add& add) {
    const std::scoped_lock lock(locks_[static_cast<std::size_t>(tile) % locks_.size()]);
    add();
  }

  // Says whose turn it is first. Before the work items start.
  void set_turn(i64 tile, i64 turn) { turns_[static_cast<std::size_t>(tile)] = turn; }

  // Waits until it is the turn of `turn`, runs add() and hands over to `next_turn`. Work items must
  // be handed out in the order of their turns: then the first unfinished one never waits for one
  // that has not started, and nobody waits for ever.
  template <class Add>
  void in_order(i64 tile, i64 turn, i64 next_turn, const Add& add) {
    std::atomic<i64>& current = turns_[static_cast<std::size_t>(tile)];
    for (i64 seen = current; seen != turn; seen = current) current.wait(seen);
    add();
    current = next_turn;
    current.notify_all();
  }

 private:
  static constexpr std::size_t kLocks = 64;
  std::array<std::mutex, kLocks> locks_;
  std::unique_ptr<std::atomic<i64>[]> turns_;
};

}  // namespace attnlab::cpu
