#include "harness/session/own_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace attnlab {
namespace {

// Turns this process, the child, into the program.
[[noreturn]] void become(const OwnProcess& process) {
  std::vector<std::string> words = process.command;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  for (const auto& [name, value] : process.environment) setenv(name.c_str(), value.c_str(), 1);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nowhere = open("/dev/null", O_WRONLY);
  if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
  if (!process.errors.empty()) {
    const int errors = open(process.errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (errors >= 0) dup2(errors, STDERR_FILENO);
  }
  execv(process.program.c_str(), pointers.data());
  _exit(kNotStarted);
}

}  // namespace

pid_t start_process(const OwnProcess& process) {
  std::fflush(nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // if ignored, as some supervisors leave it, it loses the status
  const pid_t child = fork();
  if (child < 0) {
    throw std::runtime_error(fmt::format("cannot start {} {}: {}", process.command.at(0),
                                         process.command.at(1), std::strerror(errno)));
  }
  if (child == 0) become(process);
  return child;
}

}  // namespace attnlab
