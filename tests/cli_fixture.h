// Runs the real binary, as a user calls it, in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "harness/testing/one_line.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

inline std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Runs the binary in a folder of the test's own.
class Cli : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("attnlab_cli_") + info->name() + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Returns the program's name in the build folder.
  virtual std::string program() const { return "attnlab"; }

  // Stands before the command: it hides GPUs, so that the default backend is the CPU everywhere.
  virtual std::string environment() const { return "CUDA_VISIBLE_DEVICES= "; }

  // Runs the binary; `settings` is "NAME=VALUE ..." of the environment.
  Result run(const std::string& arguments, const std::string& settings = "COLUMNS=") const {
    const auto err = folder_ / "stderr";
    const std::string command = "cd '" + folder_.string() + "' && " + settings + " " +
                                environment() + "'" + in_build(program()) + "' " + arguments +
                                " 2>'" + err.string() + "'";
    Result result;
    std::FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      result.out.append(buffer.data(), n);
    }
    const int status = pclose(pipe);
    if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    result.err = read(err);
    std::filesystem::remove(err);
    return result;
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  bool is_empty() const { return std::filesystem::is_empty(folder_); }

  std::filesystem::path folder_;
};

}  // namespace attnlab
