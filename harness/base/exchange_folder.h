// Makes a folder for files that two processes exchange.
#pragma once

#include <cstdint>
#include <filesystem>

namespace attnlab {

// Makes a new folder and removes it with all its files when the object is destroyed. It lies in
// memory (/dev/shm) if that has `bytes` to spare, else with the temporary files. It also removes
// folders of processes that were killed. Throws UsageError where none can be made.
class ExchangeFolder {
 public:
  explicit ExchangeFolder(std::uint64_t bytes);
  ~ExchangeFolder();
  ExchangeFolder(const ExchangeFolder&) = delete;
  ExchangeFolder& operator=(const ExchangeFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // held as long as the folder is in use
};

}  // namespace attnlab
