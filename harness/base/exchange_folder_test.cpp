#include "harness/base/exchange_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

// No memory has so much: so folders lie with the temporary files, whose place the test sets.
constexpr std::uint64_t kTooMuch = std::numeric_limits<std::uint64_t>::max();

class ExchangeFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    parent_ = fs::path(testing::TempDir()) / ("exchange_" + std::to_string(getpid()));
    fs::create_directories(parent_);
    setenv("TMPDIR", parent_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    fs::remove_all(parent_);
  }
  fs::path parent_;
};

TEST_F(ExchangeFolderTest, IsGoneWithAllThatIsInIt) {
  fs::path path;
  {
    const ExchangeFolder folder(kTooMuch);
    path = folder.path();
    EXPECT_EQ(path.parent_path(), parent_);
    std::ofstream(path / "file") << "text";
    ASSERT_TRUE(fs::exists(path / "file"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ExchangeFolderTest, LiesInMemoryWhereThereIsRoom) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "there is no /dev/shm to write to";
  EXPECT_EQ(ExchangeFolder(1).path().parent_path(), "/dev/shm");
}

TEST_F(ExchangeFolderTest, RemovesThoseOfKilledProcessesAlone) {
  const ExchangeFolder in_use(kTooMuch);
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t killed = fork();
  if (killed == 0) {
    const ExchangeFolder folder(kTooMuch);
    const std::string path = folder.path().string();
    const bool written =
        write(pipe_ends[1], path.data(), path.size()) == static_cast<ssize_t>(path.size());
    _exit(written ? 0 : 1);  // no destructor runs
  }
  int status = 0;
  waitpid(killed, &status, 0);
  ASSERT_EQ(status, 0);
  std::string abandoned(4096, '\0');
  abandoned.resize(static_cast<std::size_t>(read(pipe_ends[0], abandoned.data(), 4096)));
  close(pipe_ends[0]);
  close(pipe_ends[1]);

  { const ExchangeFolder next(kTooMuch); }
  EXPECT_TRUE(fs::exists(abandoned)) << "it is new: its process may be about to lock it";

  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(abandoned, long_ago);
  fs::last_write_time(in_use.path(), long_ago);
  fs::create_directory(parent_ / "of-somebody-else");
  fs::last_write_time(parent_ / "of-somebody-else", long_ago);
  { const ExchangeFolder next(kTooMuch); }
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(in_use.path()));
  EXPECT_TRUE(fs::exists(parent_ / "of-somebody-else"));
}

TEST_F(ExchangeFolderTest, SaysWhereItCannotBe) {
  setenv("TMPDIR", "/proc", 1);
  const std::string said = usage_error([] { const ExchangeFolder folder(kTooMuch); });
  EXPECT_PRED2(contains, said, "/proc: cannot create a folder");
  EXPECT_PRED2(contains, said, "TMPDIR");
}

}  // namespace
}  // namespace attnlab
