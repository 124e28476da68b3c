#include "harness/session/device_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "harness/testing/test_support.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

class DeviceLocks : public testing::Test {
 protected:
  DeviceLocks() { setenv("ATTNLAB_LOCK_FOLDER", folder_.path().c_str(), 1); }
  ~DeviceLocks() override { unsetenv("ATTNLAB_LOCK_FOLDER"); }

  static std::string error_of(const Device& device) {
    try {
      const DeviceLock lock(device);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  TestFolder folder_;
  Device cpu_;
  Device gpu_ = {.backend = Backend::cuda, .uuid = "GPU-1"};
};

TEST_F(DeviceLocks, HaveOneOwnerADevice) {
  const DeviceLock lock(gpu_);
  EXPECT_PRED2(contains, error_of(gpu_), "measures on this device");
  EXPECT_PRED2(contains, error_of(gpu_), "attnlab-GPU-1.lock");
  EXPECT_EQ(error_of(cpu_), "");
  Device other = gpu_;
  other.uuid = "GPU-2";
  EXPECT_EQ(error_of(other), "");
}

TEST_F(DeviceLocks, EndWithTheirOwner) {
  { const DeviceLock lock(cpu_); }
  EXPECT_EQ(error_of(cpu_), "");
}

TEST_F(DeviceLocks, AreNotHeldByProgramsThatTheOwnerStarted) {
  std::optional<DeviceLock> lock(std::in_place, cpu_);
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sleep", "sleep", "30", nullptr);
    _exit(1);
  }
  usleep(200'000);  // sleep runs in the child by then
  lock.reset();
  EXPECT_EQ(error_of(cpu_), "");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(DeviceLocks, AreFilesAndNothingElse) {
  std::filesystem::create_directory(lock_file(cpu_));
  EXPECT_PRED2(contains, error_of(cpu_), "it is no file");
  ASSERT_EQ(mkfifo(lock_file(gpu_).c_str(), 0600), 0);
  EXPECT_PRED2(contains, error_of(gpu_), "it is no file");
}

TEST_F(DeviceLocks, DoNotFollowLinks) {
  std::ofstream(folder_.path() / "target");
  std::filesystem::create_symlink(folder_.path() / "target", lock_file(cpu_));
  EXPECT_PRED2(contains, error_of(cpu_), "cannot be used");
}

}  // namespace
}  // namespace attnlab
