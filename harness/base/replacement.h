// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace attnlab {

// A file beside `target` that takes its place when all is well, and is gone otherwise. All
// functions throw UsageError naming the target.
class Replacement {
 public:
  explicit Replacement(std::filesystem::path target);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::span<const std::byte> bytes);
  void put_in_place();

 private:
  void flush_folder() const;

  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
  bool in_place_ = false;
};

}  // namespace attnlab
