#include "kernels/cuda/cubin_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/cuda/test_support.h"

namespace attnlab::cuda {
namespace {

CachedCubin entry(const std::string& cubin) {
  return {.compiler = "NVRTC 13.0", .seconds = 0.25, .log = "log", .cubin = cubin};
}

class Cache : public testing::Test {
 protected:
  std::string read() const {
    std::ifstream stream(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }

  TestFolder folder_;
  CubinCache cache_{folder_.path() / "made" / "when needed"};
  std::filesystem::path file_ = cache_.file_of("name", "key");
};

TEST_F(Cache, GivesBackWhatWasStored) {
  const std::string cubin("\177ELF\0\1\2\n\xff", 9);
  EXPECT_FALSE(cache_.find("name", "key").has_value());
  cache_.store("name", "key", entry(cubin));
  const std::optional<CachedCubin> found = cache_.find("name", "key");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->compiler, "NVRTC 13.0");
  EXPECT_EQ(found->seconds, 0.25);
  EXPECT_EQ(found->log, "log");
  EXPECT_EQ(found->cubin, cubin);
  EXPECT_FALSE(cache_.find("name", "other key").has_value());
}

TEST_F(Cache, AFileThatIsNotWholeIsNone) {
  cache_.store("name", "key", entry("code"));
  const std::string good = read();
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(good.substr(0, size));
    EXPECT_FALSE(cache_.find("name", "key").has_value()) << size << " bytes";
  }
  write(good + "x");
  EXPECT_FALSE(cache_.find("name", "key").has_value());
  write(good);
  EXPECT_TRUE(cache_.find("name", "key").has_value());
}

TEST_F(Cache, AnyChangedByteIsNoticed) {
  cache_.store("name", "key", entry("code"));
  const std::string good = read();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write(bad);
    EXPECT_FALSE(cache_.find("name", "key").has_value()) << "byte " << i;
  }
}

TEST_F(Cache, AFileOfAnotherKeyIsNone) {
  cache_.store("name", "another", entry("code"));
  std::filesystem::rename(cache_.file_of("name", "another"), file_);
  EXPECT_FALSE(cache_.find("name", "key").has_value());
}

TEST_F(Cache, WhatOthersCanWriteIsRefusedWithTheRemedy) {
  namespace fs = std::filesystem;
  cache_.store("name", "key", entry("code"));
  const auto complaint = [&]() -> std::string {
    try {
      return cache_.find("name", "key") ? "" : "not found";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(complaint(), "");
  fs::permissions(file_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_NE(complaint().find("can be written by others (mode 0646)"), std::string::npos);
  EXPECT_NE(complaint().find("--cache-dir DIR"), std::string::npos);
  fs::permissions(file_, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(file_.parent_path(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_NE(complaint().find("can be written by others (mode 0757)"), std::string::npos);
  fs::remove(file_);
  EXPECT_NE(complaint().find("can be written by others (mode 0757)"), std::string::npos)
      << "before anything is kept there";
}

TEST_F(Cache, ManyWritersLeaveOneWholeFile) {
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([this, i] {
      for (int j = 0; j < 20; ++j) {
        cache_.store("name", "key", entry(std::string(50'000, static_cast<char>('a' + i))));
        EXPECT_TRUE(cache_.find("name", "key").has_value());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(cache_.folder())) {
    files += file.exists() ? 1 : 0;
  }
  EXPECT_EQ(files, 1U);
}

TEST_F(Cache, NamesOfFilesArePlain) {
  const std::string file = cache_.file_of("../a b/\xc3\xa4", "key").filename().string();
  EXPECT_TRUE(file.starts_with(".._a_b___")) << file;
  EXPECT_EQ(cache_.file_of(std::string(500, 'n'), "key").filename().string().size(), 120U + 23U);
}

TEST_F(Cache, AFullOrForbiddenFolderIsNamed) {
  const CubinCache nowhere("/proc/nowhere");
  try {
    nowhere.store("name", "key", entry("code"));
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("/proc/nowhere"), std::string::npos) << words;
    EXPECT_NE(words.find("--cache-dir"), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace attnlab::cuda
