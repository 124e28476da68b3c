#include "harness/base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>
#include <thread>

extern "C" char** environ;

namespace attnlab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kKeptErrors = 4000;
constexpr std::size_t kLongestLine = 16u << 20;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// Holds what posix_spawn needs to know, and frees it again.
struct SpawnOptions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  SpawnOptions(int channel, int error_stream) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, channel, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, channel, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, error_stream, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnOptions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;
};

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  // This is a socket and not two pipes: only a write to a socket can be asked not to raise SIGPIPE
  // when the reader is gone.
  std::array<int, 2> channel{};
  std::array<int, 2> errors{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) != 0) {
    fail(errno, "socketpair");
  }
  channel_ = channel[0];
  if (pipe2(errors.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    close(channel[0]);
    close(channel[1]);
    fail(error, "pipe");
  }
  error_stream_ = errors[0];
  fcntl(error_stream_, F_SETFL, O_NONBLOCK);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const SpawnOptions options(channel[1], errors[1]);
  const int error = posix_spawnp(&pid_, arguments[0], &options.files, &options.attributes,
                                 arguments.data(), environ);
  close(channel[1]);
  close(errors[1]);
  if (error != 0) {
    close_if_open(channel_);
    close_if_open(error_stream_);
    fail(error, command[0]);
  }
}

ChildProcess::~ChildProcess() {
  end(0.0);
  close_if_open(error_stream_);
}

bool ChildProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = send(channel_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

ChildProcess::Outcome ChildProcess::read_line(double timeout_s, std::string& line) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_s);
  std::array<char, 4096> buffer{};
  for (;;) {
    if (const std::size_t newline = received_.find('\n'); newline != std::string::npos) {
      line = received_.substr(0, newline);
      received_.erase(0, newline + 1);
      return Outcome::line;
    }
    if (received_.size() > kLongestLine) return Outcome::end;
    const std::chrono::duration<double, std::milli> left = deadline - Clock::now();
    if (!(left.count() > 0.0)) return Outcome::timeout;
    std::array<pollfd, 2> waiting = {pollfd{channel_, POLLIN, 0}, pollfd{error_stream_, POLLIN, 0}};
    const int wait_ms = static_cast<int>(std::min(std::ceil(left.count()), 1e6));
    if (poll(waiting.data(), waiting.size(), wait_ms) < 0 && errno != EINTR) return Outcome::end;
    if (waiting[1].revents != 0) read_errors();  // the child must never wait for us to read
    if (waiting[0].revents == 0) continue;
    const ssize_t count = recv(channel_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Outcome::end;
    received_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::string ChildProcess::end(double grace_s) {
  if (channel_ >= 0) shutdown(channel_, SHUT_WR);
  const auto deadline = Clock::now() + std::chrono::duration<double>(grace_s);
  while (!has_ended() && Clock::now() < deadline) {
    read_errors();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!has_ended()) {
    kill(-pid_, SIGKILL);  // kills it with all that it started
    while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
  }
  read_errors();
  close_if_open(channel_);
  return WIFEXITED(status_) ? fmt::format("exit status {}", WEXITSTATUS(status_))
                            : fmt::format("signal {}", WTERMSIG(status_));
}

void ChildProcess::read_errors() {
  std::array<char, 4096> buffer{};
  while (error_stream_ >= 0) {
    const ssize_t count = read(error_stream_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // nothing more for now
    if (count == 0) return close_if_open(error_stream_);
    errors_.append(buffer.data(), static_cast<std::size_t>(count));
    if (errors_.size() > kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
  }
}

bool ChildProcess::has_ended() {
  if (!reaped_) reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

}  // namespace attnlab
