#include "kernels/cuda/worker_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "kernels/cuda/jit.h"
#include "kernels/cuda/messages.h"

namespace attnlab {
namespace cuda {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error("no process can be started that compiles: " + what + ": " +
                           std::strerror(error));
}

// Its standard input and output are both our socket; its errors go where ours go.
pid_t start(const std::string& program, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  std::string name = "attnlab";
  std::string verb = "compile-worker";
  char* const arguments[] = {name.data(), verb.data(), nullptr};
  pid_t process = -1;
  const int error = posix_spawn(&process, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(program, error);
  return process;
}

}  // namespace

WorkerProcess::WorkerProcess() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair", errno);
  socket_ = ends[0];
  const std::string& program = compiler_settings().worker_program;
  try {
    process_ = start(program.empty() ? "/proc/self/exe" : program, ends[1]);
  } catch (...) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
  send_message(socket_, to_bytes(compiler_settings()));
}

WorkerProcess::~WorkerProcess() {
  close(socket_);
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void WorkerProcess::send(const CompileJob& job) { send_message(socket_, to_bytes(job)); }

std::optional<Compilation> WorkerProcess::receive() try {
  const std::optional<std::string> bytes = receive_message(socket_);
  if (!bytes) return std::nullopt;
  return compilation_of(*bytes);
} catch (const std::out_of_range&) {
  return std::nullopt;
}

WorkerProcess::End WorkerProcess::end() {
  shutdown(socket_, SHUT_RDWR);  // one that lives and talks nonsense ends by it
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (!WIFSIGNALED(status)) {
    return {.words = "ended with code " + std::to_string(WEXITSTATUS(status))};
  }
  const int signal = WTERMSIG(status);
  return {.words = "was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")",
          .was_interrupted = signal == SIGINT || signal == SIGTERM || signal == SIGHUP};
}

}  // namespace cuda

int run_compile_worker() {
  const int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // what a library prints must not get between the messages
  constexpr int kNoMessages = 2;
  const std::optional<std::string> settings = cuda::receive_message(STDIN_FILENO);
  if (output < 0 || !settings) return kNoMessages;
  set_compiler(cuda::settings_of(*settings));
  while (const std::optional<std::string> bytes = cuda::receive_message(STDIN_FILENO)) {
    const CompileJob job = cuda::job_of(*bytes);
    Compilation result{.unit = job.unit.name, .arch = job.arch};
    try {
      result = cuda::compile(job.unit, job.arch).compilation;
    } catch (const std::exception& error) {
      result.error = error.what();
    }
    if (!cuda::send_message(output, cuda::to_bytes(result))) return 1;
  }
  return 0;
}

}  // namespace attnlab
