#include "harness/base/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "harness/base/errors.h"
#include "harness/base/file_system.h"

namespace attnlab {
namespace {

// Returns " (process 1234)" for the holder of the lock, "" if it cannot be known: flock() does not
// say, but /proc/locks has lines like "1: FLOCK  ADVISORY  WRITE 1234 fe:00:10953862 0 EOF".
std::string describe_holder(const struct stat& file) {
  const std::string wanted =
      fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advice, access, place;
    long process = 0;  // stays so for a process of another container
    words >> number >> kind >> advice >> access >> process >> place;
    if (kind == "FLOCK" && place == wanted && process > 0) {
      return fmt::format(" (process {})", process);
    }
  }
  return "";
}

// Returns whether it can be locked: pipes and devices cannot.
bool is_file(int descriptor, struct stat& status) {
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

LockAttempt try_lock(int descriptor) {
  struct stat status {};
  if (!is_file(descriptor, status)) return {.is_locked = true};
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {.is_locked = true};
  return {.holder = describe_holder(status)};
}

bool refuses_second(int descriptor) {
  struct stat status {};
  if (!is_file(descriptor, status)) return true;
  const int second = open(fmt::format("/proc/self/fd/{}", descriptor).c_str(), O_RDWR | O_CLOEXEC);
  if (second < 0) return false;
  const bool is_refused = !try_lock(second).is_locked;
  close(second);
  return is_refused;
}

bool is_locked_for_sure(int descriptor) {
  struct stat status {};
  if (!is_file(descriptor, status)) return true;
  return file_system_of(descriptor).is_local && refuses_second(descriptor);
}

void lock_for_writing(int descriptor, const std::filesystem::path& file) {
  const LockAttempt attempt = try_lock(descriptor);
  if (attempt.is_locked) return;
  throw std::runtime_error(fmt::format(
      "{}: another attnlab{} is writing to it: wait until it ends, or name another file",
      file.string(), attempt.holder));
}

FileLock::FileLock(const std::filesystem::path& file) {
  const std::string name = file.string() + ".lock";
  descriptor_ = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw UsageError(fmt::format("{}: cannot be made: {}", name, std::strerror(errno)));
  }
  while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FileLock::~FileLock() { close(descriptor_); }

}  // namespace attnlab
