#include "kernels/cpu/dq_turns.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace attnlab::cpu {
namespace {

TEST(DqTurns, AnyOrderLetsOneAddAtATime) {
  DqTurns turns(1);
  i64 sum = 0;  // not atomic: only the turns protect it
  constexpr i64 kTimes = 2000;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (i64 i = 0; i < kTimes; ++i) {
          turns.any_order(0, [&] {
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

// Each thread has every third turn of tile 1; whoever is scheduled first, the order is the same.
TEST(DqTurns, InOrderIsTheOrderOfTheTurns) {
  DqTurns turns(2);
  std::vector<i64> order;
  constexpr i64 kTurns = 3000;
  turns.set_turn(1, 0);
  {
    std::vector<std::jthread> threads;
    for (i64 t = 0; t < 3; ++t) {
      threads.emplace_back([&turns, &order, t] {
        for (i64 turn = t; turn < kTurns; turn += 3) {
          turns.in_order(1, turn, turn + 1, [&] { order.push_back(turn); });
        }
      });
    }
  }
  ASSERT_EQ(order.size(), static_cast<std::size_t>(kTurns));
  for (i64 turn = 0; turn < kTurns; ++turn) {
    ASSERT_EQ(order[static_cast<std::size_t>(turn)], turn);
  }
}

// A launch may be repeated: the first turn is set again.
TEST(DqTurns, TurnsCanBeSetAgain) {
  DqTurns turns(1);
  int calls = 0;
  for (int launch = 0; launch < 2; ++launch) {
    turns.set_turn(0, 5);
    turns.in_order(0, 5, 9, [&] { ++calls; });
    turns.in_order(0, 9, 10, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace attnlab::cpu
