// Says who may add to which rows of dQ, and when. A backward pass that works on column blocks of
// keys adds to one row of dQ from many work items; a GPU uses atomics or, where results must not
// depend on the order, a semaphore for each tile of rows.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "kernels/shared/base.h"

namespace attnlab::cpu {

class DqSemaphores {
 public:
  // Makes semaphores for `tiles` tiles of query rows, numbered over the whole problem.
  explicit DqSemaphores(i64 tiles)
      : semaphores_(std::make_unique<std::atomic<i64>[]>(static_cast<std::size_t>(tiles))) {}

  // Runs add() while nobody else adds to this tile: the order is whoever comes first.
  template <class Add>
  void any_order(i64 tile, const Add& add) {
    const std::scoped_lock lock(locks_[static_cast<std::size_t>(tile) % locks_.size()]);
    add();
  }

  // Says which work item adds first. It is called before the work items start.
  void set(i64 tile, i64 first) { semaphores_[static_cast<std::size_t>(tile)] = first; }

  // Waits until the semaphore is `own`, runs add() and sets it to `next`. Work items must be handed
  // out in the order in which they add: then the first unfinished one never waits for one that has
  // not started, and nobody waits for ever.
  template <class Add>
  void in_order(i64 tile, i64 own, i64 next, const Add& add) {
    std::atomic<i64>& semaphore = semaphores_[static_cast<std::size_t>(tile)];
    for (i64 seen = semaphore; seen != own; seen = semaphore) semaphore.wait(seen);
    add();
    semaphore = next;
    semaphore.notify_all();
  }

 private:
  static constexpr std::size_t kLocks = 64;
  std::array<std::mutex, kLocks> locks_;
  std::unique_ptr<std::atomic<i64>[]> semaphores_;
};

}  // namespace attnlab::cpu
