// Starts a process of our own, which answers on its standard output what its standard input gets.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace attnlab {

class ChildProcess {
 public:
  // Starts command[0], looked up in PATH, with the rest as its arguments. It has a process group of
  // its own: Ctrl-C does not reach it, and it ends when its input does. Throws std::system_error if
  // it cannot be started (ENOENT: there is no such program).
  explicit ChildProcess(const std::vector<std::string>& command);
  // Kills the process if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Writes `line`, given without its newline. Returns false if the process takes no more.
  bool write_line(const std::string& line);

  enum class Outcome { line, end, timeout };
  // Waits for a whole line of its output; `line` is without the newline. A line longer than 16 MiB
  // counts as the end.
  Outcome read_line(double timeout_s, std::string& line);

  // Ends its input, gives it `grace_s` to go and kills it otherwise. Says how it ended, like "exit
  // status 1" or "signal 9"; afterwards errors() is complete.
  std::string end(double grace_s);

  // Returns the end of what it wrote to standard error, at most 4000 bytes.
  const std::string& errors() const { return errors_; }

 private:
  void read_errors();
  bool has_ended();

  pid_t pid_ = -1;
  int channel_ = -1;       // its input and output
  int error_stream_ = -1;  // -1: at its end
  std::string received_;   // starts behind the last whole line
  std::string errors_;
  bool reaped_ = false;
  int status_ = 0;
};

}  // namespace attnlab
