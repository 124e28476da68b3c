// Tests attnlab run --resume, and what a killed or interrupted run leaves: the real binary.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "tests/cli_fixture.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Child is the binary on its own, so that it can be sent signals.
class Child {
 public:
  // `command` is for the shell, and ends with an exec.
  explicit Child(const std::string& command) {
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t signals;  // which whoever runs the tests may ignore
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    std::string shell = "sh", flag = "-c", text = command;
    char* arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
    if (posix_spawn(&pid_, "/bin/sh", nullptr, &attributes, arguments, environ) != 0) pid_ = -1;
    posix_spawnattr_destroy(&attributes);
  }
  ~Child() {
    if (pid_ > 0) end(SIGKILL);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  bool is_running() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }
  // Sends the signal and waits; returns the status of waitpid().
  int end(int signal) {
    kill(pid_, signal);
    return wait();
  }
  int wait() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

bool was_ended_by(int status, int signal) {
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

// Each case warms up every kernel for that long; nothing else takes much time.
std::string timed(double warmup_seconds) {
  return "--block 16x16 --rounds 1 --no-progress --protocol warmup_seconds=" +
         std::to_string(warmup_seconds) + " ";
}

// The sweep has twelve cases of two points each.
const std::string kSweep =
    "run --kernel naive,v2 --heads 1 --head-dim 8 --seqlen 8:64:x2 --mask none,causal,window:3:0 ";
const std::string kCheap = kSweep + timed(0.0);
constexpr std::size_t kPoints = 24;
const std::string kOnePoint = "run --kernel v2 --heads 1 --head-dim 8 --seqlen 8 ";

class CliResume : public Cli {
 protected:
  std::string command(const std::string& arguments) const {
    return "cd '" + folder_.string() + "' && exec env " + environment() + "'" +
           in_build("attnlab") + "' " + arguments + " >'" + (folder_ / "out").string() + "' 2>'" +
           (folder_ / "err").string() + "'";
  }

  // Counts how often each point is in the file; that it can be read is what every call checks.
  std::map<std::string, int> keys(const std::string& name) const {
    std::vector<std::string> warnings;
    std::map<std::string, int> count;
    if (!std::filesystem::exists(folder_ / name)) return count;
    for (const Json& record : read_records(folder_ / name, warnings)) {
      ++count[record.at("key").get<std::string>()];
    }
    EXPECT_LE(warnings.size(), 1u) << "only the last line can be torn";
    return count;
  }

  // Counts lines as any reader of JSON lines sees them.
  std::size_t plain_lines(const std::string& name) const {
    std::size_t lines = 0;
    std::stringstream text(read(folder_ / name));
    for (std::string line; std::getline(text, line); ++lines) {
      EXPECT_TRUE(Json::accept(line)) << line;
    }
    return lines;
  }

  // Writes a complete file of the cheap sweep.
  void make_complete(const std::string& name) const {
    const Result result = run(kCheap + "--out " + name);
    ASSERT_EQ(result.code, 0) << result.err;
    ASSERT_EQ(keys(name).size(), kPoints);
  }

  // Returns what a process of the binary takes to begin: moments are measured by it, as a sanitizer
  // or a busy machine slows all.
  double startup_seconds() const {
    const auto start = Clock::now();
    run("--version");
    return Seconds(Clock::now() - start).count();
  }

  // Returns the flags of a sweep that takes eight times as long as a run of one point, so that
  // other runs fit beside it: where a run looks for a GPU it needs seconds to begin.
  std::string slow_sweep() const {
    const auto start = Clock::now();
    EXPECT_EQ(run(kOnePoint + timed(0.0) + "--out one.jsonl").code, 0);
    const double one_run = Seconds(Clock::now() - start).count();
    return kSweep + timed(std::max(0.03, one_run * 8 / kPoints));
  }

  std::size_t size(const std::string& name) const {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(folder_ / name, error);
    return error ? 0 : bytes;
  }
};

TEST_F(CliResume, KilledFiftyTimesItLosesNothingAndRepeatsNothing) {
  const double startup = startup_seconds();
  const auto start = Clock::now();
  make_complete("whole.jsonl");
  const double whole = Seconds(Clock::now() - start).count();
  const auto wanted = keys("whole.jsonl");

  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed of the random moments: " + std::to_string(seed));
  std::printf("seed of the random moments: %u; a run takes %.3f s, %.3f s of it to begin\n", seed,
              whole, startup);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> moment(0.0, startup + whole / 6);
  int kills = 0, complete = 0;
  std::map<std::string, int> before;
  const std::string to_file = "--out k.jsonl", on_file = "--resume k.jsonl";
  while (kills < 50 || complete == 0 || !before.empty()) {
    const bool begins = !std::filesystem::exists(folder_ / "k.jsonl");
    Child child(command(kCheap + (begins ? to_file : on_file)));
    // After the fiftieth kill the sweep goes on to its end.
    if (kills < 50) {
      std::this_thread::sleep_for(Seconds(moment(random)));
      kill(child.pid(), SIGKILL);
    }
    const int status = child.wait();
    const auto after = keys("k.jsonl");
    for (const auto& [key, count] : before) EXPECT_TRUE(after.contains(key)) << "lost: " << key;
    for (const auto& [key, count] : after) EXPECT_EQ(count, 1) << key;
    before = after;
    if (was_ended_by(status, SIGKILL)) {
      ++kills;
      continue;
    }
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0) << read(folder_ / "err");
    EXPECT_EQ(after, wanted);
    EXPECT_EQ(plain_lines("k.jsonl"), kPoints);
    ++complete;
    std::filesystem::remove(folder_ / "k.jsonl");
    before.clear();
  }
  std::printf("%d kills, %d complete sweeps\n", kills, complete);
}

// Returns the command behind the last line that is `marker`, indented by two.
std::string command_after(const std::string& text, const std::string& marker) {
  const std::size_t begin = text.rfind(marker + "\n  ");
  if (begin == std::string::npos) return "";
  const std::size_t command = begin + marker.size() + 3;
  return text.substr(command, text.find('\n', command) - command);
}

class CliInterrupted : public CliResume, public testing::WithParamInterface<int> {};

TEST_P(CliInterrupted, WhatIsThereIsShownAndTheRestCanBeRun) {
  const std::string slow = slow_sweep();
  Child child(command(slow + "--out 'r 1.jsonl'"));
  while (size("r 1.jsonl") == 0 && child.is_running()) std::this_thread::sleep_for(Seconds(1e-3));
  // Meanwhile nobody else writes to the file, and all can read it.
  const std::string before = read(folder_ / "r 1.jsonl");
  const Result second = run(kCheap + "--out 'r 1.jsonl'");
  EXPECT_EQ(second.code, 3);
  EXPECT_EQ(second.out, "");
  EXPECT_PRED2(contains, second.err, "r 1.jsonl: another attnlab");
  if (std::filesystem::exists("/proc/locks")) {
    EXPECT_PRED2(contains, second.err, "(process " + std::to_string(child.pid()) + ")");
  }
  EXPECT_EQ(run(slow + "--resume 'r 1.jsonl'").code, 3);
  EXPECT_PRED2(starts_with, read(folder_ / "r 1.jsonl"), before);
  EXPECT_EQ(run("table 'r 1.jsonl'").code, 0);

  const int status = child.end(GetParam());
  EXPECT_TRUE(was_ended_by(status, GetParam())) << status << read(folder_ / "err");
  EXPECT_EQ(read(folder_ / "err"), "");
  const std::string out = read(folder_ / "out");
  const auto first = keys("r 1.jsonl");
  ASSERT_GE(first.size(), 2u);
  ASSERT_LT(first.size(), kPoints);
  EXPECT_EQ(plain_lines("r 1.jsonl"), first.size());
  const std::string points = std::to_string(first.size());
  EXPECT_PRED2(contains, out, points + " points: " + points + " ok.");
  const std::string name = GetParam() == SIGINT ? "SIGINT" : "SIGTERM";
  const std::string last =
      "Interrupted by " + name + ": " + points + " of 24 points recorded. To run the rest:";
  const std::string rest = command_after(out, last);
  EXPECT_PRED2(starts_with, rest, in_build("attnlab") + " run --kernel naive,v2 ");
  EXPECT_TRUE(rest.ends_with(" --resume 'r 1.jsonl'")) << rest;

  const std::string again =
      "cd '" + folder_.string() + "' && exec env " + environment() + rest + " > out";
  EXPECT_EQ(Child(again).wait(), 0);
  EXPECT_PRED2(
      contains, read(folder_ / "out"),
      "r 1.jsonl has " + points + " of them, " + std::to_string(24 - first.size()) + " are");
  EXPECT_PRED2(contains, read(folder_ / "out"), "24 points: 24 ok.");
  EXPECT_EQ(keys("r 1.jsonl").size(), kPoints);
  EXPECT_EQ(plain_lines("r 1.jsonl"), kPoints);
}

INSTANTIATE_TEST_SUITE_P(Signals, CliInterrupted, testing::Values(SIGINT, SIGTERM),
                         [](const auto& signal) {
                           return std::string(signal.param == SIGINT ? "SIGINT" : "SIGTERM");
                         });

// A file that may not grow is what the tests have of a full disk.
class CliFullDisk : public CliResume {
 protected:
  std::string environment() const override { return limit_ + CliResume::environment(); }

  std::string limit_ = "ulimit -f 60; ";  // blocks of 512 bytes
};

TEST_F(CliFullDisk, WhatWasSavedIsShownAndTheRestCanBeRun) {
  const Result full = run(kCheap + "--out r.jsonl");
  EXPECT_EQ(full.code, 3);
  const auto first = keys("r.jsonl");
  ASSERT_GE(first.size(), 2u) << full.err;
  ASSERT_LT(first.size(), kPoints);
  EXPECT_EQ(plain_lines("r.jsonl"), first.size());
  const std::string points = std::to_string(first.size());
  EXPECT_PRED2(contains, full.out, points + " points: " + points + " ok.");
  EXPECT_PRED2(starts_with, full.err, "attnlab run: r.jsonl: cannot write to it: ");
  const std::string words = one_line(full.err);
  EXPECT_PRED2(contains, words, ": " + points + " of 24 points recorded. To run the rest:");
  EXPECT_PRED2(contains, words, " --resume r.jsonl");

  limit_.clear();
  const Result rest = run(kCheap + "--resume r.jsonl");
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_PRED2(contains, rest.out, "24 points: 24 ok.");
  EXPECT_EQ(keys("r.jsonl").size(), kPoints);
  EXPECT_EQ(plain_lines("r.jsonl"), kPoints);
}

// A lock that always succeeds is what the tests have of a file system that locks nothing.
class CliWithoutLocks : public CliResume {
 protected:
  std::string environment() const override {
    return CliResume::environment() + "LD_PRELOAD='" + in_build("libno_locks.so") +
           "' ASAN_OPTIONS=\"$ASAN_OPTIONS:verify_asan_link_order=0\" ";
  }

  void wait_for_records(const Child& child) const {
    while (size("r.jsonl") == 0 && child.is_running()) std::this_thread::sleep_for(Seconds(1e-3));
  }

  const std::string words_ = "--shard 1/2 --out r.jsonl --resume r.jsonl";
};

TEST_F(CliWithoutLocks, AFileHasOneWriterAndGoesOnAfterAKill) {
  const std::string slow = slow_sweep() + words_;
  Child child(command(slow));
  wait_for_records(child);
  const std::string before = read(folder_ / "r.jsonl");
  const Result second = run(slow);
  EXPECT_EQ(second.code, 3);
  EXPECT_PRED2(contains, second.err,
               fmt::format("r.jsonl: another attnlab (process {}) is writing to it", child.pid()));
  EXPECT_PRED2(starts_with, read(folder_ / "r.jsonl"), before);
  EXPECT_TRUE(was_ended_by(child.end(SIGKILL), SIGKILL));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "r.jsonl.writer"));
  const Result rest = run(slow);
  EXPECT_EQ(rest.code, 0) << rest.err;
  const auto done = keys("r.jsonl");
  EXPECT_EQ(done.size(), kPoints / 2);
  for (const auto& [key, count] : done) EXPECT_EQ(count, 1) << key;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r.jsonl.writer"));
}

// This happens where Slurm takes a machine that it cannot reach for dead, and runs its task
// elsewhere.
TEST_F(CliWithoutLocks, WhoeverWasTakenForDeadEndsWithThree) {
  Child child(command(slow_sweep() + words_));
  wait_for_records(child);
  const std::size_t there = keys("r.jsonl").size();
  write("r.jsonl.writer", R"({"host":"n7","boot":"b","processes":"p","process":7,"start":1,)"
                          R"("job":""})");
  const int status = child.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_PRED2(contains, read(folder_ / "err"), "attnlab on n7 (process 7) took it over");
  EXPECT_LE(keys("r.jsonl").size(), there + 2) << "but for a case that was written meanwhile";
  EXPECT_LT(keys("r.jsonl").size(), kPoints / 2);
}

// The case would take hours.
TEST_F(CliResume, AnInterruptionDoesNotWaitForTheCase) {
  Child child(command(kOnePoint + timed(3600.0) + "--save a.st --out r.jsonl"));
  while (size("a.st") == 0 && child.is_running()) std::this_thread::sleep_for(Seconds(1e-3));
  EXPECT_TRUE(was_ended_by(child.end(SIGINT), SIGINT)) << read(folder_ / "err");
  const std::string out = read(folder_ / "out");
  EXPECT_PRED2(contains, out, "\nno records\n");
  EXPECT_PRED2(contains, out, "Saved q, k, v, o, lse to a.st, as they were verified last.");
  EXPECT_PRED2(contains, out, "Interrupted by SIGINT: 0 of 1 point recorded. To run the rest:\n");
  EXPECT_EQ(size("r.jsonl"), 0u);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_NE(entry.path().extension(), ".tmp");
    ++files;
  }
  EXPECT_EQ(files, 4u) << "out, err, records, tensors";
}

TEST_F(CliResume, ACompleteFileIsShownAndLeftAlone) {
  make_complete("r.jsonl");
  const std::string before = read(folder_ / "r.jsonl");
  const Result result = run(kCheap + "--resume r.jsonl --out ./r.jsonl");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "r.jsonl has all of them: nothing is left to run.");
  EXPECT_PRED2(contains, result.out, "24 points: 24 ok.");
  EXPECT_EQ(read(folder_ / "r.jsonl"), before);
}

// The exit code is that of all points, old and new.
TEST_F(CliResume, TheExitCodeIsThatOfTheFile) {
  make_complete("r.jsonl");
  std::string text = read(folder_ / "r.jsonl");
  const std::size_t status = text.find(R"("status":"ok")");
  text.replace(status, 13, R"("status":"failed")");
  write("r.jsonl", text);
  EXPECT_EQ(run(kCheap + "--resume r.jsonl").code, 1);
  write("r.jsonl", text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  const Result result = run(kCheap + "--resume r.jsonl");
  EXPECT_EQ(result.code, 1);
  EXPECT_PRED2(contains, result.out, "24 points: 23 ok, 1 failed");
  // The record of a later run stands for the point.
  ASSERT_EQ(run(kCheap + "--out r.jsonl").code, 0);
  EXPECT_EQ(run(kCheap + "--resume r.jsonl").code, 0);
}

TEST_F(CliResume, ATornLineIsRepairedAndReported) {
  make_complete("r.jsonl");
  const std::string whole = read(folder_ / "r.jsonl");
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  const std::string torn = whole.substr(0, last + 1000) + std::string(5000, '\0');
  for (const char* flag : {"--resume", "--out"}) {
    write("r.jsonl", torn);
    const Result table = run("table r.jsonl");
    EXPECT_EQ(table.code, 0);
    EXPECT_PRED2(contains, table.err, "r.jsonl:24: half-written record left out");
    const Result result = run(kCheap + flag + " r.jsonl");
    EXPECT_EQ(result.code, 0);
    EXPECT_PRED2(contains, result.err, "attnlab run: r.jsonl: removed its last 6000 bytes, ");
    const bool resumed = flag == std::string("--resume");
    EXPECT_EQ(plain_lines("r.jsonl"), resumed ? kPoints : kPoints - 1 + kPoints);
    EXPECT_EQ(keys("r.jsonl").size(), kPoints);
    if (!resumed) continue;
    // The other kernel of the case had been timed: this one took its turns alone, and says so.
    EXPECT_PRED2(contains, result.out, "In 1 case some kernels were timed before");
    std::vector<std::string> warnings;
    const auto records = read_records(folder_ / "r.jsonl", warnings);
    EXPECT_EQ(records.front()["time"]["contenders"], 2);
    EXPECT_EQ(records.back()["time"]["contenders"], 1);
    EXPECT_PRED2(contains, records.back()["command_line"].get<std::string>(), "--resume r.jsonl");
  }
}

TEST_F(CliResume, ADryRunSaysWhatIsLeftAndChangesNothing) {
  make_complete("r.jsonl");
  const std::string text = read(folder_ / "r.jsonl").substr(0, 20000);
  write("r.jsonl", text);
  const Result result = run(kCheap + "--resume r.jsonl --dry-run");
  EXPECT_EQ(result.code, 0);
  const std::size_t left = kPoints - keys("r.jsonl").size();
  EXPECT_PRED2(contains, result.out, std::to_string(left) + " points, of which");
  EXPECT_PRED2(contains, result.out, std::to_string(left) + " are left.");
  EXPECT_EQ(read(folder_ / "r.jsonl"), text);
}

TEST_F(CliResume, WhatCannotBeResumedIsExitTwoAndChangesNothing) {
  make_complete("r.jsonl");
  const std::string before = read(folder_ / "r.jsonl");
  write("text.jsonl", "no records\n");
  // The message ends with the baseline, which no run chooses: newer Highways call it sse2, older
  // ones portable.
  const std::string instruction_sets = run(kCheap + "--isa none").err;
  const std::string baseline = instruction_sets.substr(instruction_sets.rfind(' ') + 1);
  const std::pair<std::string, const char*> cases[] = {
      {"--resume nowhere.jsonl", "--resume: nowhere.jsonl: no such file: name the records"},
      {"--resume .", "--resume: .: is not a regular file"},
      {"--resume /dev/null", "--resume: /dev/null: is not a regular file"},
      {"--resume r.jsonl --out s.jsonl", "--resume: goes on with r.jsonl, but --out names s.jsonl"},
      {"--resume text.jsonl", "text.jsonl: its last line: not JSON"},
      {"--resume r.jsonl --isa " + baseline.substr(0, baseline.find('\n')),
       "r.jsonl: device.isa was "},
      {"--resume r.jsonl --threads 7", "r.jsonl: device.threads was "},
      {"--resume r.jsonl --max-seconds 3", "protocol.max_seconds was 86400.0 and is 3.0 now"},
      {"--resume r.jsonl --seed 8", "none of its 24 points is in this sweep"},
  };
  for (const auto& [arguments, message] : cases) {
    const Result result = run(kCheap + arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_PRED2(contains, result.err, message);
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(read(folder_ / "r.jsonl"), before);
    EXPECT_EQ(read(folder_ / "text.jsonl"), "no records\n");
  }
  const Result same = run(kOnePoint + timed(0.0) + "--resume r.jsonl --save r.jsonl");
  EXPECT_EQ(same.code, 2);
  EXPECT_PRED2(contains, same.err, "--save: r.jsonl is also the file of --resume");
}

// The same command begins a shard and goes on with it.
TEST_F(CliResume, ShardsTogetherAreTheSweep) {
  make_complete("whole.jsonl");
  std::map<std::string, int> together;
  for (const char* shard : {"1", "2", "3"}) {
    const std::string file = fmt::format("s.{}.jsonl", shard);
    const std::string words = fmt::format("--shard {0}/3 --out {1} --resume {1}", shard, file);
    const Result first = run(kCheap + words);
    EXPECT_EQ(first.code, 0) << first.err;
    EXPECT_PRED2(contains, first.out, "shard " + std::string(shard) + "/3 with ");
    const std::string whole = read(folder_ / file);
    EXPECT_EQ(Json::parse(whole.substr(0, whole.find('\n')))["shard"]["of"], 3);
    for (const auto& [key, times] : keys(file)) together[key] += times;
    // Kills in the middle, then gives the same command again.
    write(file, whole.substr(0, whole.size() / 2));
    EXPECT_EQ(run(kCheap + words).code, 0);
    EXPECT_EQ(plain_lines(file), count_lines(whole));
    EXPECT_EQ(run(kCheap + words).code, 0);
    EXPECT_EQ(plain_lines(file), count_lines(whole)) << "nothing was left";
  }
  EXPECT_EQ(together, keys("whole.jsonl")) << "each point once, none left out";
}

// Runs 504 points in three shards, and kills each process at a random moment until its shard is
// whole.
class CliKilledShards : public CliResume {
 protected:
  static constexpr std::size_t kAll = 504;
  static inline const std::string kAllPoints =
      "run --kernel naive,v2 --heads 1 --head-dim 8 --seqlen 1:84:+1 --mask "
      "none,causal,window:3:0 " +
      timed(0.0);

  // Keeps what comes before the last line, which may be torn.
  std::string whole_lines(const std::string& name) const {
    const std::string text = read(folder_ / name);
    return text.substr(0, text.rfind('\n') + 1);
  }

  // Runs a shard to its end; returns how often it was killed.
  int run_killed(int shard, std::mt19937& random) const {
    const std::string file = fmt::format("s.{}.jsonl", shard);
    const std::string words = fmt::format("--shard {0}/3 --out {1} --resume {1}", shard, file);
    std::uniform_int_distribution<std::size_t> some_bytes(0, 100'000);
    std::uniform_real_distribution<double> some_seconds(0.0, 2e-3);
    for (int kills = 0;; ++kills) {
      const std::string before = whole_lines(file);
      const std::size_t wanted = before.size() + some_bytes(random);
      Child child(command(kAllPoints + words));
      while (child.is_running() && size(file) < wanted) std::this_thread::sleep_for(Seconds(1e-4));
      std::this_thread::sleep_for(Seconds(some_seconds(random)));
      const int status = child.end(SIGKILL);
      EXPECT_PRED2(starts_with, read(folder_ / file), before);
      for (const auto& [key, count] : keys(file)) EXPECT_EQ(count, 1) << key;
      if (was_ended_by(status, SIGKILL)) continue;
      EXPECT_EQ(WEXITSTATUS(status), 0) << read(folder_ / "err");
      return kills;
    }
  }
};

TEST_F(CliKilledShards, LoseNothingOfFiveHundredPoints) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed of the random moments: " + std::to_string(seed));
  std::mt19937 random(seed);
  int kills = 0;
  for (int shard = 1; shard <= 3; ++shard) kills += run_killed(shard, random);
  std::printf("seed of the random moments: %u; %d kills\n", seed, kills);
  EXPECT_GE(kills, 10);
  const Result merged = run("merge s.1.jsonl s.2.jsonl s.3.jsonl --out all.jsonl");
  // A kill within a write may take one kernel's record of two.
  EXPECT_TRUE(merged.code == 0 || contains(merged.out, "did not all take turns together"))
      << merged.out << merged.err;
  EXPECT_PRED2(contains, merged.out, "504 points of 3 files in all.jsonl.");
  EXPECT_EQ(keys("all.jsonl").size(), kAll);
  EXPECT_EQ(plain_lines("all.jsonl"), kAll);
  const Result rest = run(kAllPoints + "--resume all.jsonl --dry-run");
  EXPECT_PRED2(contains, one_line(rest.out), "all.jsonl has all of them") << rest.err;
}

TEST_F(CliResume, AShardKeepsToItsFile) {
  const std::string one = kCheap + "--shard 1/3 --resume s.jsonl";
  const Result dry = run(one + " --dry-run");
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_PRED2(contains, dry.out, "This is shard 1/3 with ");
  EXPECT_EQ(size("s.jsonl"), 0u);
  ASSERT_EQ(run(one).code, 0);
  const std::string before = read(folder_ / "s.jsonl");
  const std::pair<const char*, const char*> cases[] = {
      {"--shard 2/3", "its records are of shard 1/3, and --shard says 2/3"},
      {"--shard 1/13", "the sweep has 12 cases that can be apart: take at most 12 shards"},
      {"--shard 4/3", "--shard: '4/3' is not K/N, the K-th of N shards"},
      {"--shard ''", "--shard: a value is missing"}};
  for (const auto& [words, message] : cases) {
    const Result result = run(kCheap + "--resume s.jsonl " + words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_PRED2(contains, result.err, message);
  }
  EXPECT_EQ(read(folder_ / "s.jsonl"), before);
  ASSERT_EQ(run(kCheap + "--resume s.jsonl").code, 0) << "the whole sweep goes on with a shard";
  EXPECT_EQ(keys("s.jsonl").size(), kPoints);
}

}  // namespace
}  // namespace attnlab
