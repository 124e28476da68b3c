#include "harness/base/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "harness/base/errors.h"

namespace attnlab {
namespace {

int first_error = 0;  // of a write to standard output

void note_error() {
  if (first_error == 0) first_error = errno;
}

}  // namespace

void write_text(std::FILE* stream, const std::string& text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stream);
  if (written < text.size() && stream == stdout) note_error();
}

void prepare_output() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_closed = fcntl(stream, F_GETFD) < 0;
    // A file that is opened gets the lowest number that is free.
    if (is_closed && open("/dev/null", O_RDWR) != stream) _exit(kExitEnvironment);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

std::string flush_standard_output() {
  if (std::fflush(stdout) != 0) note_error();
  if (first_error != 0) return std::strerror(first_error);
  return std::ferror(stdout) != 0 ? "some of it was lost" : "";
}

}  // namespace attnlab
