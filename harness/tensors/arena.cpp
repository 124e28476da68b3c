#include "harness/tensors/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace attnlab {

namespace {

// Returns the index of the guard byte that differs and lies nearest to the tensor, or -1.
std::int64_t altered_byte(const unsigned char* guard, bool before) {
  constexpr auto kBytes = static_cast<std::int64_t>(Arena::kGuardBytes);
  for (std::int64_t distance = 0; distance < kBytes; ++distance) {
    if (guard[before ? kBytes - 1 - distance : distance] != Arena::kFill) return distance;
  }
  return -1;
}

}  // namespace

Arena::Buffer Arena::allocate(std::string name, std::uint64_t bytes) {
  static_assert(kGuardBytes % kAlignment == 0, "the guard must keep the alignment of what follows");
  const std::uint64_t total = bytes + 2 * kGuardBytes;
  blocks_.reserve(blocks_.size() + 1);
  void* const base = runtime_.allocate(total);
  try {
    runtime_.fill(base, kFill, total);
  } catch (...) {
    runtime_.release(base);
    throw;
  }
  unsigned char* const data = static_cast<unsigned char*>(base) + kGuardBytes;
  blocks_.push_back({std::move(name), data, bytes});
  current_ += bytes;
  peak_ = std::max(peak_, current_);
  return Buffer(data, Release{this});
}

void Arena::release(void* data) noexcept {
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [data](const Block& candidate) {
    return candidate.data == data;
  });
  current_ -= block->bytes;
  runtime_.release(block->data - kGuardBytes);
  blocks_.erase(block);
}

std::string Arena::restore_guards() {
  std::string report;
  std::array<unsigned char, kGuardBytes> contents;
  for (const Block& block : blocks_) {
    for (const bool before : {true, false}) {
      unsigned char* const guard = before ? block.data - kGuardBytes : block.data + block.bytes;
      runtime_.read(contents.data(), guard, kGuardBytes);
      const std::int64_t distance = altered_byte(contents.data(), before);
      if (distance < 0) continue;
      if (report.empty()) {
        report = fmt::format("wrote outside {}, {} bytes {}", block.name,
                             before ? distance + 1 : distance,
                             before ? "before its first byte" : "past its last byte");
      }
      runtime_.fill(guard, kFill, kGuardBytes);
    }
  }
  return report;
}

}  // namespace attnlab
