// Keeps worker threads for one loop over independent work items: the CPU's grid of thread
// blocks.
#pragma once

#include <memory>
#include <type_traits>

#include "kernels/shared/base.h"

namespace attnlab::cpu {

class ThreadPool {
 public:
  // Returns the pool of so many workers, the calling thread included. Pools are shared: two kernels
  // prepared for one device use the same threads. Throws std::system_error if threads cannot be
  // started.
  static std::shared_ptr<ThreadPool> of(int threads);

  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(worker, item) once for each item in [0, items), worker in [0, threads()), and
  // returns when all are done. Items are handed out in ascending order, one at a time, so a
  // schedule that numbers its heavy items first balances itself. body must not throw. Only one run
  // may be active at a time.
  template <class Body>
  void run(i64 items, const Body& body) {
    run_erased(items, {.call = [](const void* context, int worker,
                                  i64 item) { (*static_cast<const Body*>(context))(worker, item); },
                       .context = &body});
  }

 private:
  struct Task {
    void (*call)(const void* context, int worker, i64 item) = nullptr;
    const void* context = nullptr;
  };
  struct State;

  void run_erased(i64 items, Task task);

  int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace attnlab::cpu
