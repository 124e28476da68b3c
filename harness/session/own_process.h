// Starts this program once more, in a process of its own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace attnlab {

struct OwnProcess {
  std::vector<std::string> command;  // what it sees as its arguments, its name first
  std::filesystem::path program = "/proc/self/exe";
  std::vector<std::pair<std::string, std::string>> environment = {};  // names and values to set
  std::filesystem::path errors = {};  // a file that gets its standard error; empty: as this one's
};

inline constexpr int kNotStarted = 127;  // the exit code of what could not be started

// Starts it. Its standard output goes nowhere. It has a process group of its own, so signals of the
// terminal reach the caller alone, which hands them on; it gets SIGTERM where the caller ends. What
// cannot be started ends with kNotStarted. Throws std::runtime_error where there is no process.
pid_t start_process(const OwnProcess& process);

}  // namespace attnlab
