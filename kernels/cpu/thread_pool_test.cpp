#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace attnlab::cpu {
namespace {

TEST(ThreadPool, RunsEveryItemOnceOnAValidWorker) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const i64 items : {0L, 1L, 3L, 1000L}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(items));
      std::atomic<int> wrong_workers{0};
      pool.run(items, [&](int worker, i64 item) {
        ++runs[static_cast<std::size_t>(item)];
        if (worker < 0 || worker >= threads) ++wrong_workers;
      });
      EXPECT_EQ(wrong_workers, 0);
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, WorkersOfOneRunNeverShareAnIndex) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> collisions{0};
  for (int repeat = 0; repeat < 200; ++repeat) {
    pool.run(64, [&](int worker, i64) {
      if (inside[static_cast<std::size_t>(worker)].fetch_add(1) != 0) ++collisions;
      inside[static_cast<std::size_t>(worker)].fetch_sub(1);
    });
  }
  EXPECT_EQ(collisions, 0);
}

TEST(ThreadPool, ReturnsOnlyWhenAllIsDone) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> done{0};
    pool.run(6, [&](int worker, i64) {
      // The sleep lets every worker get an item, and the caller be through with its own first.
      std::this_thread::sleep_for(std::chrono::microseconds(worker == 0 ? 500 : 4000));
      ++done;
    });
    ASSERT_EQ(done, 6);
  }
}

TEST(ThreadPool, PoolsOfOneSizeAreShared) {
  const auto first = ThreadPool::of(2);
  EXPECT_EQ(first, ThreadPool::of(2));
  EXPECT_NE(first, ThreadPool::of(3));
}

}  // namespace
}  // namespace attnlab::cpu
