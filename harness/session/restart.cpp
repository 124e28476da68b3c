#include "harness/session/restart.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace attnlab {
namespace {

// Marks all files but the standard ones, so that exec closes them.
void close_files_at_exec() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const int descriptor = std::atoi(entry->d_name);
    if (descriptor > STDERR_FILENO) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
  closedir(folder);
}

// Starts `program` in place of this one; PATH is searched where it is no path.
[[noreturn]] void start(const std::string& program, std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  close_files_at_exec();
  std::fflush(nullptr);
  execvp(program.c_str(), pointers.data());
  throw std::runtime_error(fmt::format("could not start {}: {}", program, std::strerror(errno)));
}

}  // namespace

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::vector<std::string> without_flags(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& flags) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string name = argument.substr(0, argument.find('='));
    if (std::ranges::find(flags, name) == flags.end()) {
      kept.push_back(argument);
    } else if (name == argument) {
      ++i;  // skips its value, too
    }
  }
  return kept;
}

std::vector<std::string> arguments_to_resume(const std::vector<std::string>& arguments,
                                             const std::filesystem::path& records) {
  std::vector<std::string> kept = without_flags(arguments, {"--out", "--resume"});
  kept.emplace_back("--resume");
  kept.push_back(records.string());
  return kept;
}

void become(std::vector<std::string> command) {
  const std::string program = command.at(0);
  start(program, std::move(command));
}

void restart_to_resume(const std::filesystem::path& records) {
  start("/proc/self/exe", arguments_to_resume(own_arguments(), records));
}

}  // namespace attnlab
