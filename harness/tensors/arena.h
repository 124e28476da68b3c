// Owns the memory that kernels see: all of it comes from an arena, which counts it and surrounds it
// with guards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/runtime.h"

namespace attnlab {

// Sets every new byte, guards included, to 0xFF: a NaN in f32, f16, bf16 and e4m3, and -1 as an
// index. So whoever reads what it did not write, or reads past an end, spoils its result. Filling
// also touches every page before anything is timed.
class Arena {
 public:
  static constexpr std::uint8_t kFill = 0xFF;
  static constexpr std::uint64_t kAlignment = 256;
  static constexpr std::uint64_t kGuardBytes = 512 * 4;  // 512 elements of the widest type

  struct Release {
    Arena* arena = nullptr;
    void operator()(void* data) const noexcept { arena->release(data); }
  };
  using Buffer = std::unique_ptr<void, Release>;

  // Takes memory of `runtime`, which must outlive the arena.
  explicit Arena(Runtime& runtime = host_runtime()) : runtime_(runtime) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Allocates, aligned to kAlignment, with guards directly before the first byte and after the
  // last. The buffer must not outlive the arena. Throws std::bad_alloc.
  Buffer allocate(std::string name, std::uint64_t bytes);

  Runtime& runtime() const { return runtime_; }

  // Returns the bytes that were asked for, without guards: now, and the most since reset_peak().
  std::uint64_t current_bytes() const { return current_; }
  std::uint64_t peak_bytes() const { return peak_; }
  void reset_peak() { peak_ = current_; }

  // Looks at the guards of all live buffers. Says which buffer was overrun and where ("" if none),
  // and restores the guards, so that the next kernel is not blamed for this one.
  std::string restore_guards();

 private:
  struct Block {
    std::string name;
    unsigned char* data;
    std::uint64_t bytes;
  };
  void release(void* data) noexcept;

  Runtime& runtime_;
  std::vector<Block> blocks_;
  std::uint64_t current_ = 0;
  std::uint64_t peak_ = 0;
};

}  // namespace attnlab
