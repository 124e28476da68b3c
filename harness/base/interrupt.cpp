#include "harness/base/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace attnlab {
namespace {

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");

void note(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

struct sigaction watch(int signal) {
  struct sigaction old {};
  sigaction(signal, nullptr, &old);
  if (old.sa_handler == SIG_IGN) return old;
  struct sigaction action {};
  action.sa_handler = note;
  // The second signal has the default effect; system calls go on as if nothing had happened.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(signal, &action, &old);
  return old;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  first_signal = 0;
  old_interrupt_ = watch(SIGINT);
  old_terminate_ = watch(SIGTERM);
}

InterruptWatch::~InterruptWatch() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
}

int InterruptWatch::signal() { return first_signal; }

const char* name_of_signal(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

void end_by_signal(int signal) {
  std::fflush(nullptr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  _exit(128 + signal);  // reached only where the signal is blocked
}

}  // namespace attnlab
