// What several tests need: files that go away, messages of expected errors, text comparisons.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/errors.h"

namespace attnlab {

// A file in the temporary folder, named after the running test; gone with the object.
class TestFile {
 public:
  TestFile(const std::string& extension, const std::string& text) {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string(info->test_suite_name()) + "." + info->name() + extension);
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

// For EXPECT_PRED2, which prints both.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
inline bool starts_with(const std::string& text, const std::string& part) {
  return text.starts_with(part);
}

// The message of the UsageError that `action` throws, "" if it throws none.
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
