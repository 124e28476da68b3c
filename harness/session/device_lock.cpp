#include "harness/session/device_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "harness/base/file_lock.h"

namespace attnlab {

std::filesystem::path lock_file(const Device& device) {
  const std::string name = device.backend == Backend::cpu ? "cpu"
                           : device.uuid.empty()          ? "gpu-" + std::to_string(device.ordinal)
                                                          : device.uuid;
  const char* const folder = std::getenv("ATTNLAB_LOCK_FOLDER");
  return std::filesystem::path(folder == nullptr ? "/tmp" : folder) / ("attnlab-" + name + ".lock");
}

DeviceLock::DeviceLock(const Device& device) {
  const std::filesystem::path file = lock_file(device);
  // Reading suffices for a lock, and is all that another user's file allows. A link is not ours.
  constexpr int kOpen = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  descriptor_ = open(file.c_str(), kOpen);
  if (descriptor_ < 0 && errno == ENOENT) {
    descriptor_ = open(file.c_str(), kOpen | O_CREAT, 0644);
    if (descriptor_ >= 0) fchmod(descriptor_, 0644);  // the umask must not decide
  }
  struct stat status {};
  const bool is_file =
      descriptor_ >= 0 && fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file) {
    const std::string why = descriptor_ < 0 ? std::strerror(errno) : "it is no file";
    if (descriptor_ >= 0) close(descriptor_);
    throw std::runtime_error(
        fmt::format("{}: cannot be used: {}; it keeps two gates from one device: remove it, or set "
                    "ATTNLAB_LOCK_FOLDER to a folder that all who measure share",
                    file.string(), why));
  }
  const LockAttempt attempt = try_lock(descriptor_);
  if (attempt.is_locked) return;
  close(descriptor_);
  throw std::runtime_error(fmt::format(
      "another attnlab{} measures on this device and would measure this one, too: wait until it "
      "ends ({})",
      attempt.holder, file.string()));
}

DeviceLock::~DeviceLock() { close(descriptor_); }

}  // namespace attnlab
