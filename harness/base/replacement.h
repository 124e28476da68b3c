// Writes files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace attnlab {

// Writes a file beside `target`, which takes its place if put_in_place() is called and is removed
// otherwise. All functions throw UsageError naming the target.
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
