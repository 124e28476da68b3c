// Keeps compiled units on disk. Many processes may read and write one folder at once; it can be
// filled on one machine and carried to another.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace attnlab::cuda {

// CachedCubin is what the compiler made, and what it said.
struct CachedCubin {
  std::string compiler;  // "NVRTC 13.0"
  double seconds = 0.0;  // that it took
  std::string log;
  std::string cubin;
};

class CubinCache {
 public:
  // Uses compiler_settings()'s folder. Throws std::runtime_error where there is none and no home.
  CubinCache();
  explicit CubinCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // `key` is all that the result depends on, as text; `name` leads the name of the file. Returns
  // nothing where there is no file, or it is not whole or another key's. Throws std::runtime_error
  // with the remedy where others can write it or what is above it (why_untrusted).
  std::optional<CachedCubin> find(const std::string& name, const std::string& key) const;

  // Makes the folder where it is missing. Throws std::runtime_error if nothing can be stored in it.
  void make_folder() const;

  // Stores in one step: others see the old file or the new one. Throws std::runtime_error with the
  // file and the system's words.
  void store(const std::string& name, const std::string& key, const CachedCubin& entry) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path file_of(const std::string& name, const std::string& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace attnlab::cuda
