#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace attnlab::cpu {

struct ThreadPool::State {
  Task task;
  i64 items = 0;
  std::atomic<i64> next{0};        // the next item to hand out
  std::atomic<u32> generation{0};  // raised to start a run; workers wait for it to change
  std::atomic<int> busy{0};        // workers that have not finished this run
  std::atomic<bool> stop{false};
  std::vector<std::jthread> workers;

  void work(int worker) {
    for (i64 item = next.fetch_add(1); item < items; item = next.fetch_add(1)) {
      task.call(task.context, worker, item);
    }
  }

  void serve(int worker) {
    u32 seen = 0;
    while (true) {
      generation.wait(seen);
      seen = generation.load();
      if (stop.load()) return;
      work(worker);
      if (busy.fetch_sub(1) == 1) busy.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads), state_(std::make_unique<State>()) {
  for (int worker = 1; worker < threads; ++worker) {
    state_->workers.emplace_back([this, worker] { state_->serve(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->generation.fetch_add(1);
  state_->generation.notify_all();
}

void ThreadPool::run_erased(i64 items, Task task) {
  State& state = *state_;
  state.task = task;
  state.items = items;
  state.next.store(0);
  if (threads_ > 1) {
    state.busy.store(threads_ - 1);
    state.generation.fetch_add(1);
    state.generation.notify_all();
  }
  state.work(0);
  for (int busy = state.busy.load(); busy != 0; busy = state.busy.load()) state.busy.wait(busy);
}

std::shared_ptr<ThreadPool> ThreadPool::of(int threads) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<ThreadPool>> pools;
  const std::lock_guard lock(mutex);
  std::shared_ptr<ThreadPool> pool = pools[threads].lock();
  if (pool == nullptr) {
    pool = std::make_shared<ThreadPool>(threads);
    pools[threads] = pool;
  }
  return pool;
}

}  // namespace attnlab::cpu
