#include "harness/base/write_claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/base/file_system.h"
#include "harness/base/text_file.h"
#include "harness/testing/test_support.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

Writer elsewhere(const std::string& job) {
  return {.host = "n7", .boot = "b", .processes = "p", .process = 1, .start = 2, .job = job};
}

TEST(Writers, OfThisMachineAreLookedFor) {
  const Writer self = this_writer();
  EXPECT_FALSE(has_ended(self, self));
  Writer former = self;
  --former.start;
  EXPECT_TRUE(has_ended(former, self)) << "its number is another process's by now";
}

TEST(Writers, HaveEndedAlsoWhereTheirParentHasNotNoticed) {
  std::array<int, 2> told{}, hold{};
  ASSERT_EQ(pipe(told.data()), 0);
  ASSERT_EQ(pipe(hold.data()), 0);
  const Writer self = this_writer();
  Writer child = self;
  child.process = fork();
  if (child.process == 0) {
    close(hold[1]);
    const unsigned long long start = this_writer().start;
    char end = 0;
    const bool is_told = write(told[1], &start, sizeof start) == sizeof start;
    _exit(is_told && read(hold[0], &end, 1) == 0 ? 0 : 1);
  }
  ASSERT_EQ(read(told[0], &child.start, sizeof child.start), ssize_t{sizeof child.start});
  EXPECT_FALSE(has_ended(child, self));
  close(hold[1]);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child.process), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(has_ended(child, self));
  waitpid(child.process, nullptr, 0);
  EXPECT_TRUE(has_ended(child, self));
  for (const int end : {told[0], told[1], hold[0]}) close(end);
}

TEST(Writers, OfAnotherMachineHaveEndedIfSlurmRunsTheirJobAgain) {
  Writer self = this_writer();
  self.job = "c 12 - 0";
  EXPECT_TRUE(has_ended(elsewhere("c 12 - 0"), self));
  EXPECT_FALSE(has_ended(elsewhere("c 13 - 0"), self));
  EXPECT_FALSE(has_ended(elsewhere(""), self));
  self.job.clear();
  EXPECT_FALSE(has_ended(elsewhere(""), self)) << "two that are of no job";
  // A job that Slurm restarted is no reason to take a living process for dead.
  EXPECT_FALSE(has_ended(self, self));
  // A container numbers its processes anew, and a machine whose boot is not known may be any.
  Writer other = this_writer();
  other.processes = "pid:[1]";
  EXPECT_FALSE(has_ended(other, self));
  self.boot.clear();
  other = self;
  other.process = 0;
  EXPECT_FALSE(has_ended(other, self));
}

TEST(Writers, AJobIsTheSameWhenSlurmRunsItAgain) {
  unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(this_writer().job, "");
  setenv("SLURM_JOB_ID", "12", 1);
  setenv("SLURM_RESTART_COUNT", "0", 1);
  const std::string job = this_writer().job;
  setenv("SLURM_RESTART_COUNT", "1", 1);
  EXPECT_EQ(this_writer().job, job);
  EXPECT_PRED2(contains, job, " 12 ");
  setenv("SLURM_PROCID", "1", 1);
  EXPECT_NE(this_writer().job, job) << "another task of it runs at the same time";
  for (const char* name : {"SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_PROCID"}) unsetenv(name);
}

class WriteClaims : public testing::Test {
 protected:
  static std::string refusal(const std::function<void()>& action) try {
    action();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  void write_claim(const Json& changes) const {
    Json claim = Json::parse(read_text(claim_));
    claim.update(changes);
    replace_text(claim_, claim.dump());
  }

  TestFolder folder_;
  fs::path file_ = folder_.path() / "r.jsonl", claim_ = folder_.path() / "r.jsonl.writer";
};

TEST_F(WriteClaims, ALivingWriterKeepsOthersOut) {
  {
    const WriteClaim claim(file_);
    claim.check();
    EXPECT_PRED2(contains, refusal([&] { const WriteClaim second(file_); }),
                 "r.jsonl: another attnlab (process " + std::to_string(getpid()) +
                     ") is writing to it: wait");
    claim.check();
  }
  EXPECT_FALSE(fs::exists(claim_));
  const WriteClaim next(file_);
}

TEST_F(WriteClaims, ADeadWriterIsReplaced) {
  const WriteClaim killed(file_);
  write_claim({{"process", 999'999'999}});
  {
    const WriteClaim next(file_);
    next.check();
  }
  replace_text(claim_, "{\"host\":");  // it names nobody, as a bad disk may leave it
  const WriteClaim after(file_);
  after.check();
}

TEST_F(WriteClaims, OfAnotherMachineTheRemedyIsNamed) {
  const WriteClaim claim(file_);
  write_claim({{"host", "n7"}, {"boot", "other"}});
  const std::string why = refusal([&] { const WriteClaim second(file_); });
  EXPECT_PRED2(contains, why, "r.jsonl: attnlab on n7 (process ");
  EXPECT_PRED2(contains, why, "where it has ended, remove " + claim_.string());
}

TEST_F(WriteClaims, WhoeverWasTakenForDeadWritesNoMore) {
  const WriteClaim claim(file_);
  write_claim({{"host", "n7"}, {"process", 7}});
  EXPECT_PRED2(contains, refusal([&] { claim.check(); }),
               "r.jsonl: attnlab on n7 (process 7) took it over: this one writes nothing more");
  fs::remove(claim_);
  EXPECT_PRED2(contains, refusal([&] { claim.check(); }), "r.jsonl.writer was removed");
}

TEST_F(WriteClaims, TheNameOfAnotherIsLeftAlone) {
  {
    const WriteClaim claim(file_);
    write_claim({{"host", "n7"}});
  }
  EXPECT_TRUE(fs::exists(claim_));
}

TEST(FileSystems, AreLocalOnlyIfKnownToBe) {
  EXPECT_TRUE(file_system_of_type(0xEF53).is_local);
  for (const auto& [type, name] : {std::pair(0x6969UL, "nfs"), std::pair(0x65735546UL, "fuse"),
                                   std::pair(0x1234UL, "0x1234")}) {
    EXPECT_EQ(file_system_of_type(type).name, name);
    EXPECT_FALSE(file_system_of_type(type).is_local);
  }
  EXPECT_EQ(file_system_of(-1).name, "unknown");
  EXPECT_FALSE(file_system_of(-1).is_local);
}

}  // namespace
}  // namespace attnlab
