#include "kernels/api/trusted.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace attnlab {
namespace {

namespace fs = std::filesystem;

// Makes folder/inner/file in the temporary folder, which has the sticky bit.
class Trusted : public testing::Test {
 protected:
  Trusted() {
    folder_ = fs::temp_directory_path() / ("attnlab-trusted-" + std::to_string(getpid()));
    fs::create_directories(folder_ / "inner");
    std::ofstream(file()) << "text";
    for (const fs::path& place : {folder_, folder_ / "inner"}) chmod(place.c_str(), 0755);
    chmod(file().c_str(), 0644);
  }
  ~Trusted() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "inner/file"; }
  void expect_refused(const std::string& why) const {
    EXPECT_NE(why_untrusted(file()).find(why), std::string::npos) << why_untrusted(file());
  }

  fs::path folder_;
};

TEST_F(Trusted, OnesOwnFileIs) { EXPECT_EQ(why_untrusted(file()), ""); }

TEST_F(Trusted, WhatOthersCanWriteIsNot) {
  chmod(file().c_str(), 0666);
  expect_refused("file can be written by others (mode 0666)");
}

TEST_F(Trusted, WhatLiesWhereOthersCanWriteIsNot) {
  chmod((folder_ / "inner").c_str(), 0777);
  expect_refused("inner can be written by others (mode 0777)");
  chmod((folder_ / "inner").c_str(), 0755);
  chmod(folder_.c_str(), 0757);
  expect_refused("(mode 0757)");
}

TEST_F(Trusted, TheStickyBitHelpsFoldersAboveAlone) {
  chmod(folder_.c_str(), 01777);
  EXPECT_EQ(why_untrusted(file()), "") << "others cannot replace what is in there";
  EXPECT_NE(why_untrusted(folder_), "") << "others can put more into it";
}

TEST_F(Trusted, WhatIsNotThereIsNot) {
  fs::remove(file());
  expect_refused("is not there");
}

TEST_F(Trusted, ALinkIsAsGoodAsItsTargetAndItsOwnPlace) {
  const fs::path open = folder_ / "open";
  fs::create_directories(open);
  fs::create_symlink(file(), open / "link");
  EXPECT_EQ(why_untrusted(open / "link"), "");
  chmod(open.c_str(), 0777);
  EXPECT_NE(why_untrusted(open / "link"), "") << "others can make it another link";
  chmod(open.c_str(), 0755);
  chmod(file().c_str(), 0646);
  EXPECT_NE(why_untrusted(open / "link"), "");
}

TEST_F(Trusted, AFolderIsAsGoodAsEachOfItsFiles) {
  const fs::path inner = folder_ / "inner", cache = inner / "__pycache__";
  fs::create_directories(cache);
  std::ofstream(cache / "module.pyc") << "code";
  chmod(cache.c_str(), 0755);
  chmod((cache / "module.pyc").c_str(), 0644);
  EXPECT_EQ(why_untrusted_files(inner), "");
  for (const fs::path& place : {file(), cache / "module.pyc", cache, inner}) {
    struct stat before = {};
    ASSERT_EQ(stat(place.c_str(), &before), 0);
    chmod(place.c_str(), before.st_mode | 0022u);
    const std::string why = why_untrusted_files(inner);
    EXPECT_TRUE(why.starts_with(place.string() + " can be written by others (mode 0")) << why;
    chmod(place.c_str(), before.st_mode);
  }
  EXPECT_EQ(why_untrusted_files(inner), "");
}

TEST_F(Trusted, AFolderIsAsGoodAsWhereItsLinksLead) {
  const fs::path inner = folder_ / "inner", other = folder_ / "other";
  std::ofstream(other) << "text";
  chmod(other.c_str(), 0644);
  fs::create_symlink(other, inner / "link");
  fs::create_symlink(folder_ / "nowhere", inner / "dangling");
  EXPECT_EQ(why_untrusted_files(inner), "");
  chmod(other.c_str(), 0666);
  EXPECT_NE(why_untrusted_files(inner).find("other can be written by others"), std::string::npos);
}

TEST_F(Trusted, WhatBelongsToAnotherUserIsNot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(file().c_str(), 12345, 12345), 0);
  expect_refused("belongs to user 12345");
  ASSERT_EQ(chown(file().c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  expect_refused("belongs to user 12345");
}

TEST_F(Trusted, AGroupOfSeveralIsOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files to any group";
  chmod(file().c_str(), 0664);
  EXPECT_EQ(why_untrusted(file()), "") << "root's own group";
  ASSERT_EQ(chown(file().c_str(), 0, 12345), 0);
  chmod(file().c_str(), 0664);
  expect_refused("can be written by others (mode 0664)");
}

}  // namespace
}  // namespace attnlab
