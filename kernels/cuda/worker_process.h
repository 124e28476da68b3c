// Runs a process of this program that compiles, and exchanges messages with it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "kernels/api/compiler.h"

namespace attnlab::cuda {

class WorkerProcess {
 public:
  // Starts compiler_settings().worker_program. Throws std::runtime_error.
  WorkerProcess();
  ~WorkerProcess();  // ends it, also at work
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Hands the process a job; it must have none. A process that is dead says so in receive().
  void send(const CompileJob& job);
  // Returns a descriptor that is readable when there is something to receive.
  int descriptor() const { return socket_; }
  // Waits for the result. Returns nothing if the process ended: end() then says how.
  std::optional<Compilation> receive();

  struct End {
    std::string words;             // "was ended by signal 9 (Killed)"
    bool was_interrupted = false;  // by Ctrl-C or SIGTERM: somebody wants all of this to stop
  };
  End end();

 private:
  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace attnlab::cuda
