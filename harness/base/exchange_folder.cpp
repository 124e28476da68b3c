#include "harness/base/exchange_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/base/errors.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "attnlab-exchange-";
constexpr const char* kMemory = "/dev/shm";

fs::path choose_parent(std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(kMemory, error);
  if (!error && space.available >= bytes && access(kMemory, W_OK) == 0) return kMemory;
  return fs::temp_directory_path();
}

// Returns a descriptor that holds the folder's lock, or -1 if another process has it. The lock is
// released when its process ends, however it ends.
int lock_folder(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return -1;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

void remove_abandoned(const fs::path& parent) {
  // A folder that was just made may not be locked yet, so new ones are left alone.
  const auto newest = fs::file_time_type::clock::now() - std::chrono::minutes(1);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    if (entry.last_write_time(error) > newest || error) continue;
    const int lock = lock_folder(entry.path());
    if (lock < 0) continue;
    fs::remove_all(entry.path(), error);
    close(lock);
  }
}

}  // namespace

ExchangeFolder::ExchangeFolder(std::uint64_t bytes) {
  const fs::path parent = choose_parent(bytes);
  remove_abandoned(parent);
  std::string name = (parent / (std::string(kPrefix) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    throw UsageError(fmt::format("{}: cannot create a folder in it: {}: name another with TMPDIR",
                                 parent.string(), std::strerror(errno)));
  }
  path_ = name;
  lock_ = lock_folder(path_);
}

ExchangeFolder::~ExchangeFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
  if (lock_ >= 0) close(lock_);
}

}  // namespace attnlab
