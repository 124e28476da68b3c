// Is called by libFuzzer, the same for all targets: the input becomes a file in memory.
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "harness/base/errors.h"

namespace attnlab::fuzz {

void require(bool holds, const char* sentence) {
  if (holds) return;
  std::fprintf(stderr, "finding: %s\n", sentence);
  std::abort();
}

namespace {

// MemoryFile is a file in memory with a path of its own, filled anew for every input.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "memfd_create failed");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void fill(const std::uint8_t* data, std::size_t size) {
    require(ftruncate(descriptor_, 0) == 0, "the file in memory cannot be emptied");
    require(pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size),
            "the file in memory cannot be filled");
  }

 private:
  int descriptor_;
};

}  // namespace
}  // namespace attnlab::fuzz

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer finds it by its name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static fuzz::MemoryFile file;
  file.fill(data, size);
  try {
    fuzz::read_input(file.path());
  } catch (const UsageError& error) {
    const std::string message = error.what();
    fuzz::require(message.starts_with(file.path()), "an error does not begin with the file's name");
    fuzz::require(message.size() <= 65536 + 8 * size, "an error's message is out of proportion");
  }
  return 0;
}
