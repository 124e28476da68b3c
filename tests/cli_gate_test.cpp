// Runs attnlab gate and calibrate, as a user calls them. Times of a busy machine say little, so
// only what is far from them is judged: nothing equal is slower, and four times as long is.
#include <fmt/chrono.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli_fixture.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

constexpr const char* kKernel = "--kernel v2 --heads 2 --backend cpu --no-progress ";
constexpr const char* kPoint = "--kernel v2 --heads 2 --seqlen 128 --backend cpu --no-progress ";

// Words of a wrapper() that is killed after 40 turns, among its samples.
constexpr const char* kDies =
    "{ i=0; while [ $i -lt 40 ] && read turn; do echo $turn; i=$((i + 1)); done; } | "
    "\"$real\" \"$@\"; kill -KILL $$";

class CliGate : public Cli {
 protected:
  std::string environment() const override {
    return Cli::environment() + "ATTNLAB_LOCK_FOLDER='" + folder_.string() + "' XDG_CACHE_HOME='" +
           folder_.string() + "/cache' ";
  }
  Result gate(const std::string& arguments) const {
    return run("gate " + std::string(kPoint) + arguments);
  }
  static std::string itself() { return "--against '" + in_build("attnlab") + "' "; }

  // Writes a program that runs this one with further words; what it is given is in $@.
  std::string wrapper(const std::string& text) const {
    const std::string file = (folder_ / "wrapper").string();
    write("wrapper", "#!/bin/sh\nreal='" + in_build("attnlab") + "'\n" + text + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return "--against '" + file + "' ";
  }
};

TEST_F(CliGate, WhatIsEqualIsNotSlower) {
  const Result result = gate(itself() +
                             "--rounds 10 --threshold 60 --out g --junit g.xml --summary g.md "
                             "--benchmark-json g.json");
  EXPECT_TRUE(result.code == 0 || result.code == 5) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_PRED2(contains, result.out, "10 rounds.");
  EXPECT_PRED2(contains, result.out, "1 point on both sides");
  EXPECT_PRED2(contains, read(folder_ / "g.md"), "## attnlab gate: ");
  EXPECT_PRED2(contains, read(folder_ / "g.xml"), "<testsuite name=\"attnlab gate\" tests=\"1\"");
  const auto times = nlohmann::json::parse(read(folder_ / "g.json"));
  ASSERT_EQ(times.size(), 1u);
  EXPECT_GT(times[0]["value"].get<double>(), 0.0);
  for (const char* side : {"base", "head"}) {
    const auto record = nlohmann::json::parse(read(folder_ / "g" / (std::string(side) + ".jsonl")));
    EXPECT_EQ(record["status"], "ok");
    EXPECT_EQ(record["time"]["samples_s"].size(), 10u) << side;
  }
}

// The slower one's idle time is three times a launch: it is never good, and what is equal to the
// base is not called slower for it.
TEST_F(CliGate, EachOfSeveralHeadsIsJudgedByItself) {
  wrapper("exec \"$real\" \"$@\" --planted-percent=300");
  const Result result = gate(itself() + "--candidate slow=wrapper --candidate same='" +
                             in_build("attnlab") + "' --rounds 10 --threshold 60 --out g");
  EXPECT_TRUE(result.code == 4 || result.code == 5) << result.out << result.err;
  const std::string said = one_line(result.out);
  for (const char* head : {"head", "slow", "same"}) {
    EXPECT_PRED2(contains, said, fmt::format("Head: {} ", head));
    const auto record = nlohmann::json::parse(read(folder_ / "g" / fmt::format("{}.jsonl", head)));
    EXPECT_EQ(record["time"]["samples_s"].size(), 10u) << head;
  }
  EXPECT_FALSE(contains(said, "slow: same or faster")) << said;
  EXPECT_FALSE(contains(said, "same: worse")) << said;
  EXPECT_PRED2(contains, said, fmt::format("Exit code {}.", result.code));
  // The gate measures the slow one again, in a folder of its name.
  EXPECT_TRUE(std::filesystem::exists(folder_ / "g/slow/slow-again-3.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "g/slow/base-again-3.jsonl"));
}

TEST_F(CliGate, ACandidateThatBreaksOffIsNoSuccessOfAll) {
  wrapper(kDies);
  const Result result =
      gate(itself() + "--candidate dies=wrapper --rounds 100 --threshold 90 --format json");
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["exit_code"], 3);
  ASSERT_EQ(json["heads"].size(), 2u);
  EXPECT_EQ(json["heads"][0]["head"], "head");
  EXPECT_NE(json["heads"][0]["exit_code"], 3);
  EXPECT_EQ(json["heads"][1]["head"], "dies");
  EXPECT_EQ(json["heads"][1]["exit_code"], 3);
  EXPECT_PRED2(contains, json["heads"][1]["troubles"][0].get<std::string>(),
               "The run of the dies ended with signal 9");
  EXPECT_EQ(json["heads"][1]["missing"].size(), 1u);
}

// Beside other tests a launch varies by more than a plant, so it may be called unclear, and the
// plant's own share may be, but it is never called good.
TEST_F(CliGate, WhatIsSlowerIsNeverGood) {
  const Result slower = run("gate --self-test --rounds 10 --threshold 60 " + std::string(kPoint));
  const std::string said = one_line(slower.out);
  EXPECT_PRED2(contains, said, "time at a launch's end: +");
  const bool is_told = contains(said, "exit code 4, expected 4: ");
  const bool is_unclear = contains(said, "exit code 5, expected 4: ");
  EXPECT_TRUE(is_told || is_unclear) << slower.out << slower.err;
}

TEST_F(CliGate, AStoredBaselineMustHaveEveryPoint) {
  const Result first = run("run " + std::string(kPoint) + "--rounds 10 --out base.jsonl");
  ASSERT_EQ(first.code, 0) << first.err;
  // The gate must not go by time, which beside other tests is another one now.
  const std::string by_bytes = "--baseline base.jsonl --rounds 10 --fail-on bytes ";
  const Result same = gate(by_bytes);
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  const Result more = run("gate --seqlen 128,256 " + by_bytes + kKernel);
  EXPECT_EQ(more.code, 5) << more.out << more.err;
  EXPECT_PRED2(contains, more.out, "The base lacks points");
  const Result none =
      run("gate --baseline base.jsonl --seqlen 256 --rounds 10 " + std::string(kKernel));
  EXPECT_EQ(none.code, 3) << none.out << none.err;
  EXPECT_PRED2(contains, none.out, "between sessions is not known");
  EXPECT_PRED2(contains, none.out, "Missing");
}

TEST_F(CliGate, ABaseThatBreaksOffIsNoSuccess) {
  const Result dies = gate(wrapper(kDies) + "--rounds 100 --threshold 90");
  EXPECT_EQ(dies.code, 3) << dies.out << dies.err;
  EXPECT_PRED2(contains, dies.err, "The run of the base ended with signal 9");
  const Result silent = gate(wrapper("exit 0"));
  EXPECT_EQ(silent.code, 3);
  EXPECT_PRED2(contains, silent.err, "did not begin");
  const Result chatters = gate(wrapper("echo hello; cat"));
  EXPECT_EQ(chatters.code, 3);
  EXPECT_PRED2(contains, chatters.err, "asks for no turn");
  const Result empty = gate(wrapper("echo '{\"turns\":1,\"begins\":true}'"));
  EXPECT_EQ(empty.code, 3) << empty.out;
  EXPECT_PRED2(contains, empty.err, "nothing was measured by the base");
}

TEST_F(CliGate, WhatIsWrongInItselfIsRefusedFirst) {
  for (const auto& [arguments, words] :
       {std::pair("", "give one of"),
        std::pair("--against a --baseline b", "give one of"),
        std::pair("--against nowhere", "no program"),
        std::pair("--against .", "no folder kernels"),
        std::pair("--baseline nowhere", "nowhere"),
        std::pair("--self-test --static", "give one of"),
        std::pair("--baseline empty", "holds no records"),
        std::pair("--against /bin/true --budget soon", "--budget"),
        std::pair("--against /bin/true --budget 0.01s", "--budget"),
        std::pair("--against /bin/true --threshold nan", "--threshold"),
        std::pair("--against /bin/true --fail-on luck", "--fail-on"),
        std::pair("--against /bin/true --rounds 2", "--rounds"),
        std::pair("--against /bin/true --protocol min_rounds=9", "--rounds"),
        std::pair("--against /bin/true --kernel-sources .", "--kernel-sources"),
        std::pair("--against /bin/true --debug-kernels", "--debug-kernels"),
        std::pair("--against /bin/true --junit nowhere/x.xml", "--junit"),
        std::pair("--against /bin/true --candidate /bin/true", "NAME=PATH"),
        std::pair("--against /bin/true --candidate =/bin/true", "NAME=PATH"),
        std::pair("--against /bin/true --candidate a/b=/bin/true", "NAME=PATH"),
        std::pair("--against /bin/true --candidate base=/bin/true", "another name"),
        std::pair("--against /bin/true --candidate head-again-1=/bin/true", "another name"),
        std::pair("--against /bin/true --candidate a=/bin/true,a=/bin/cat", "another name"),
        std::pair("--against /bin/true --candidate a=nowhere", "--candidate: nowhere"),
        std::pair("--against /bin/true --candidate a=/bin/true --junit x.xml", "--junit"),
        std::pair("--against /bin/true --candidate a=/bin/true --summary x.md", "--summary"),
        std::pair("--against /bin/true --candidate a=/bin/true --format csv", "csv"),
        std::pair("--self-test --candidate a=/bin/true", "--candidate"),
        std::pair("--self-test --junit x.xml", "--junit"),
        std::pair("--self-test --update", "--update"),
        std::pair("--self-test --format csv", "--format"),
        std::pair("--static", "leave out what chooses points")}) {
    write("empty", "");
    const Result result = run("gate " + std::string(kPoint) + arguments);
    EXPECT_EQ(result.code, 2) << arguments << result.out << result.err;
    EXPECT_PRED2(contains, result.err, words) << arguments;
  }
  const Result kept = run("gate --static --out folder");
  EXPECT_EQ(kept.code, 2);
  EXPECT_PRED2(contains, kept.err, "--out: --static measures nothing");
  std::filesystem::create_directories(folder_ / "tree/kernels");
  const Result tree = gate("--against tree");
  EXPECT_EQ(tree.code, 2);
  EXPECT_PRED2(contains, tree.err, "build it, and name its attnlab");
}

TEST_F(CliGate, AHiddenGpuIsNoGoodCpu) {
  for (const char* arguments : {"--against /bin/true", "--against /bin/true --seqlen 64",
                                "--against /bin/true --backend cuda --seqlen 64"}) {
    const Result result = run("gate " + std::string(arguments));
    EXPECT_EQ(result.code, 3) << arguments << result.out << result.err;
    EXPECT_NE(result.err, "");
  }
}

TEST_F(CliGate, ADiskThatIsFullIsNoSuccess) {
  const Result result =
      run("gate --backend cpu --heads 2 --kernel naive --seqlen 64,66,68,70 "
          "--rounds 5 --threshold 90 --no-progress " +
              itself(),
          "COLUMNS= && ulimit -f 12 && ");
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  EXPECT_PRED2(contains, result.out, "has no record of");
}

TEST_F(CliGate, WhatNeitherSideMeasuredIsNoSuccess) {
  const Result result =
      run("gate --backend cpu --heads 2 --kernel naive --seqlen 64,400k --rounds 5 "
          "--threshold 90 --no-progress " +
          itself());
  EXPECT_EQ(result.code, 5) << result.out << result.err;
}

TEST_F(CliGate, WhatDoesNotFitTheBudgetIsNamedAndNotGood) {
  const Result result =
      run("gate --seqlen 64,128,256 --rounds 5 --threshold 90 --budget 1.4s " + itself() + kKernel);
  EXPECT_TRUE(result.code == 5 || result.code == 4) << result.out << result.err;
  EXPECT_PRED2(contains, result.out, "Does not fit --budget 1.4s: ");
  EXPECT_PRED2(contains, result.out, "were left out");
  EXPECT_PRED2(contains, result.out, "2 points on both sides");
}

TEST_F(CliGate, CalibrationIsKeptAndUsed) {
  const Result first = run("calibrate --jobs 2 --rounds 5 --out c " + std::string(kPoint));
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_PRED2(contains, first.out, "within a job");
  EXPECT_PRED2(contains, first.out, "between processes");
  const Result shown = run("calibrate --backend cpu --show --format csv");
  EXPECT_EQ(shown.code, 0);
  EXPECT_PRED2(contains, shown.out, "regime,launches,noise");
  const Result used = gate(itself() + "--rounds 5");
  EXPECT_PRED2(contains, used.out, "is not known") << "of 2 pairs";
}

TEST_F(CliGate, WithoutACalibrationThereIsNothingToShow) {
  const Result result = run("calibrate --backend cpu --show");
  EXPECT_EQ(result.code, 3);
  EXPECT_PRED2(contains, result.err, "attnlab calibrate measures it");
}

TEST_F(CliGate, OneAtATime) {
  const Result result = gate(wrapper("\"$real\" gate --kernel v2 --seqlen 64 --backend cpu "
                                     "--against \"$real\" 2>inner; echo $? >>inner; "
                                     "exec \"$real\" \"$@\"") +
                             "--rounds 5 --threshold 90");
  EXPECT_PRED2(contains, read(folder_ / "inner"), "another attnlab");
  EXPECT_PRED2(contains, read(folder_ / "inner"), "\n3\n");
}

// Gates of several GPUs may begin in one second.
TEST_F(CliGate, AFolderThatNobodyNamedIsNobodyElses) {
  const std::time_t now = std::time(nullptr);
  for (std::time_t second = now; second < now + 60; ++second) {
    std::filesystem::create_directories(
        folder_ / fmt::format("results/gate-{:%Y%m%dT%H%M%SZ}", fmt::gmtime(second)));
  }
  const Result result = gate(itself() + "--rounds 5 --threshold 90");
  EXPECT_PRED2(contains, result.out, "Z-2\n") << result.err;
}

TEST_F(CliGate, ARunOfListedPointsRunsThose) {
  const std::string points = "--kernel v2 --heads 2 --seqlen 64,128 --no-progress ";
  ASSERT_EQ(run("run " + points + "--out all.jsonl").code, 0);
  const auto last = nlohmann::json::parse(
      read(folder_ / "all.jsonl").substr(read(folder_ / "all.jsonl").find('\n') + 1));
  write("list", last["key"].get<std::string>() + "\n");
  const Result some = run("run " + points + "--only list --out some.jsonl");
  EXPECT_EQ(some.code, 0) << some.err;
  const auto record = nlohmann::json::parse(read(folder_ / "some.jsonl"));
  EXPECT_EQ(record["key"], last["key"]);
  write("list", "something else\n");
  const Result none = run("run " + points + "--only list");
  EXPECT_EQ(none.code, 2);
  EXPECT_PRED2(contains, none.err, "lists no point of this sweep");
}

}  // namespace
}  // namespace attnlab
