// Fakes memory of a device that another process can open: each buffer is a file whose name is the
// handle.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "harness/testing/fake_runtime.h"

namespace attnlab::fake {

class FileMemory final : public SeparateMemory {
 public:
  explicit FileMemory(std::filesystem::path folder) : folder_(std::move(folder)) {}

  int shares = -1;  // that are left before one is refused; negative: all

  std::optional<SharedMemory> share(const void* data) override {
    if (shares-- == 0) return std::nullopt;
    const char* const address = on_device(static_cast<const char*>(data), 1);
    const auto buffer = std::prev(names_.upper_bound(address));
    std::string digits;
    for (const char c : buffer->second) digits += fmt::format("{:02x}", c);
    return SharedMemory{.handle = digits,
                        .offset = static_cast<std::uint64_t>(address - buffer->first)};
  }

 protected:
  void* obtain(std::uint64_t bytes) override {
    const std::string name = folder_ / fmt::format("{}", made_++);
    const int file = open(name.c_str(), O_RDWR | O_CREAT, 0600);
    void* const data = ftruncate(file, static_cast<off_t>(bytes)) == 0
                           ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                           : MAP_FAILED;
    close(file);
    if (data == MAP_FAILED) throw std::bad_alloc();
    names_[static_cast<const char*>(data)] = name;
    return data;
  }
  void give_back(void* data, std::uint64_t bytes) noexcept override {
    names_.erase(static_cast<const char*>(data));
    munmap(data, bytes);
  }

 private:
  std::filesystem::path folder_;
  int made_ = 0;
  std::map<const char*, std::string> names_;
};

}  // namespace attnlab::fake
