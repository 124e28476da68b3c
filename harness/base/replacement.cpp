#include "harness/base/replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "harness/base/errors.h"

namespace attnlab {
namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& file, const char* action) {
  throw UsageError(fmt::format("{}: cannot {}: {}", file.string(), action, std::strerror(errno)));
}

}  // namespace

Replacement::Replacement(std::filesystem::path target) : target_(std::move(target)) {
  constexpr int kMostTries = 100;  // a process that was killed may have left names behind
  for (int i = 0; i < kMostTries && descriptor_ < 0; ++i) {
    temporary_ = target_;
    temporary_ += fmt::format(".{}-{}.tmp", getpid(), i);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail_with_errno(target_, "create a file in its folder");
}

Replacement::~Replacement() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!in_place_) unlink(temporary_.c_str());
}

void Replacement::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno(target_, "write to it");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void Replacement::put_in_place() {
  if (fsync(descriptor_) != 0) fail_with_errno(target_, "flush it");
  if (close(std::exchange(descriptor_, -1)) != 0) fail_with_errno(target_, "close it");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_with_errno(target_, "replace it");
  in_place_ = true;
  flush_folder();
}

// Flushes the folder so that the new name survives a crash, if the file system can promise it.
void Replacement::flush_folder() const {
  const auto folder = target_.has_parent_path() ? target_.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace attnlab
