// A folder for files that two processes exchange.
#pragma once

#include <cstdint>
#include <filesystem>

namespace attnlab {

// A new folder, gone with the object, with all that is in it. In memory (/dev/shm) where that is
// there and has `bytes` to spare, else with the temporary files. Folders of processes that were
// killed are removed by the next one. Throws UsageError where none can be made.
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
