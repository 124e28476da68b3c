#include "kernels/cpu/dq_semaphores.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace attnlab::cpu {
namespace {

TEST(DqSemaphores, AnyOrderLetsOneAddAtATime) {
  DqSemaphores semaphores(1);
  i64 sum = 0;  // not atomic: only the lock of the tile protects it
  constexpr i64 kTimes = 2000;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (i64 i = 0; i < kTimes; ++i) {
          semaphores.any_order(0, [&] {
            const i64 seen = sum;
            std::this_thread::yield();  // whoever comes between adds to the same value
            sum = seen + 1;
          });
        }
      });
    }
  }
  EXPECT_EQ(sum, 4 * kTimes);
}

// Each thread has every third item of tile 1; whoever is scheduled first, the order is the same.
TEST(DqSemaphores, InOrderEachItemWaitsForTheOneBefore) {
  DqSemaphores semaphores(2);
  std::vector<i64> order;
  constexpr i64 kItems = 3000;
  semaphores.set(1, 0);
  {
    std::vector<std::jthread> threads;
    for (i64 t = 0; t < 3; ++t) {
      threads.emplace_back([&semaphores, &order, t] {
        for (i64 item = t; item < kItems; item += 3) {
          semaphores.in_order(1, item, item + 1, [&] { order.push_back(item); });
        }
      });
    }
  }
  ASSERT_EQ(order.size(), static_cast<std::size_t>(kItems));
  for (i64 item = 0; item < kItems; ++item) {
    ASSERT_EQ(order[static_cast<std::size_t>(item)], item);
  }
}

// A launch may be repeated: who adds first is set again.
TEST(DqSemaphores, CanBeSetAgain) {
  DqSemaphores semaphores(1);
  int calls = 0;
  for (int launch = 0; launch < 2; ++launch) {
    semaphores.set(0, 5);
    semaphores.in_order(0, 5, 9, [&] { ++calls; });
    semaphores.in_order(0, 9, 10, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace attnlab::cpu
