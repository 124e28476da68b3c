// Holds what many tests need: files that go away, messages of expected errors, text comparisons.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/base/errors.h"

namespace attnlab {

// Makes a file of its own in the temporary folder, and removes it with the object.
class TestFile {
 public:
  TestFile(const std::string& extension, const std::string& text) {
    static int count = 0;
    const std::string name = "attnlab-" + std::to_string(getpid()) + "-" + std::to_string(++count);
    path_ = std::filesystem::temp_directory_path() / (name + extension);
    std::ofstream(path_) << text;
  }
  ~TestFile() { std::filesystem::remove(path_); }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

using Texts = std::vector<std::string>;

// These serve EXPECT_PRED2, which prints both arguments.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
inline bool starts_with(const std::string& text, const std::string& part) {
  return text.starts_with(part);
}

// Returns the message of the UsageError that `action` throws, "" if it throws none.
template <class Action>
std::string usage_error(const Action& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace attnlab
