// Ctrl-C and SIGTERM, as a question that long work asks itself between two steps.
#pragma once

#include <csignal>

namespace attnlab {

// While it lives, the first SIGINT or SIGTERM is only noted; a second one of its kind kills as
// ever. One that the process ignores (as under nohup) stays ignored. One object at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // The first signal that came, 0 if none did.
  static int signal();

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_terminate_ {};
};

// "SIGINT" or "SIGTERM".
const char* name_of_signal(int signal);

// Ends the process by the signal, so that whoever started it sees how it ended (a shell: status
// 128 + signal, and a loop stops).
[[noreturn]] void end_by_signal(int signal);

}  // namespace attnlab
