#include "harness/base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace attnlab {
namespace {

// Runs in processes of their own: a signal that is not caught must not end the test.
class InterruptDeathTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void leave(bool good) { std::_Exit(good ? 0 : 1); }

// An ignored signal is inherited, and whoever runs the tests may ignore it.
void take_default(int signal) { std::signal(signal, SIG_DFL); }

TEST_P(InterruptDeathTest, TheFirstIsNoted) {
  const int signal = GetParam();
  EXPECT_EXIT(
      {
        take_default(signal);
        const InterruptWatch watch;
        const bool quiet = InterruptWatch::signal() == 0;
        std::raise(signal);
        leave(quiet && InterruptWatch::signal() == signal);
      },
      testing::ExitedWithCode(0), "");
}

TEST_P(InterruptDeathTest, TheSecondKills) {
  const int signal = GetParam();
  EXPECT_EXIT(
      {
        take_default(signal);
        const InterruptWatch watch;
        std::raise(signal);
        std::raise(signal);
        leave(true);
      },
      testing::KilledBySignal(signal), "");
}

TEST_P(InterruptDeathTest, OutsideOfAWatchItKills) {
  const int signal = GetParam();
  EXPECT_EXIT(
      {
        take_default(signal);
        { const InterruptWatch watch; }
        std::raise(signal);
        leave(true);
      },
      testing::KilledBySignal(signal), "");
}

TEST_P(InterruptDeathTest, WhatWasIgnoredStaysIgnored) {
  const int signal = GetParam();
  EXPECT_EXIT(
      {
        std::signal(signal, SIG_IGN);
        const InterruptWatch watch;
        std::raise(signal);
        leave(InterruptWatch::signal() == 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_P(InterruptDeathTest, TheProcessEndsByTheSignal) {
  EXPECT_EXIT(end_by_signal(GetParam()), testing::KilledBySignal(GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptDeathTest, testing::Values(SIGINT, SIGTERM),
                         [](const auto& signal) {
                           return std::string(name_of_signal(signal.param));
                         });

}  // namespace
}  // namespace attnlab
