// Turns Ctrl-C and SIGTERM into a question that long work asks itself between two steps.
#pragma once

#include <csignal>

namespace attnlab {

// Notes the first SIGINT or SIGTERM while it lives; a second one of the same kind kills as usual. A
// signal that the process ignores (as under nohup) stays ignored. Only one object may exist.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Returns the first signal that came, 0 if none did.
  static int signal();

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_terminate_ {};
};

// Returns "SIGINT" or "SIGTERM".
const char* name_of_signal(int signal);

// Ends the process by the signal, so that whoever started it sees how it ended (a shell: status
// 128 + signal, and a loop stops).
[[noreturn]] void end_by_signal(int signal);

}  // namespace attnlab
