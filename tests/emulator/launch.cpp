#include "tests/emulator/launch.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/emulator/block.h"
#include "tests/emulator/running_blocks.h"

namespace attnlab::emulator {
namespace {

// SharedMemory is that of the blocks that a thread of the host runs, one after another.
class SharedMemory {
 public:
  SharedMemory()
      : bytes_(static_cast<u8*>(mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedMemory() { munmap(bytes_, kSharedBytes); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  u8* get() const { return bytes_; }

 private:
  u8* bytes_;
};

// Returns how many blocks run at once: one a processor, or $ATTNLAB_EMULATOR_BLOCKS.
u64 blocks_at_once() {
  const char* const text = std::getenv("ATTNLAB_EMULATOR_BLOCKS");
  const u64 blocks =
      text == nullptr ? std::thread::hardware_concurrency() : std::strtoull(text, nullptr, 10);
  return std::max<u64>(1, blocks);
}

}  // namespace

std::string run(const Launch& launch) {
  std::atomic<u64> next = 0;
  std::mutex mutex;
  std::string error;
  const u64 workers = std::min<u64>(launch.blocks, blocks_at_once());
  RunningBlocks running(launch.blocks, workers);
  const auto work = [&] {
    const SharedMemory shared;
    for (u64 index = next++; index < launch.blocks; index = next++) {
      std::string own_error;
      RunningBlocks::Member among(running);
      Block(launch, index, shared.get(), among, own_error).run();
      if (own_error.empty()) continue;
      const std::lock_guard lock(mutex);
      if (error.empty()) error = own_error;
      next = launch.blocks;
    }
  };
  // Blocks never run on the caller's own thread, whose thread-local __shared__ variables lie far
  // from all else.
  std::vector<std::thread> threads;
  for (u64 i = 0; i < workers; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return error;
}

}  // namespace attnlab::emulator
