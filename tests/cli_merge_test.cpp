// Runs attnlab merge and attnlab table --progress on a sweep's shards, with the real binary.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// The sweep has eight cases of two points.
const std::string kSweep =
    "run --kernel naive,v2 --heads 1 --head-dim 8 --seqlen 8:64:x2 --mask none,causal "
    "--block 16x16 --rounds 1 --no-progress --protocol warmup_seconds=0 ";

class CliMerge : public Cli {
 protected:
  std::string environment() const override {
    return Cli::environment() + "XDG_CACHE_HOME='" + folder_.string() + "/cache' ";
  }

  void make_shards() const {
    for (const char* shard : {"1", "2"}) {
      const std::string words = fmt::format("--shard {0}/2 --resume s.{0}.jsonl", shard);
      ASSERT_EQ(run(kSweep + words).code, 0);
    }
  }

  std::vector<Json> lines(const std::string& file) const {
    std::vector<Json> all;
    std::istringstream text(read(folder_ / file));
    for (std::string line; std::getline(text, line);) all.push_back(Json::parse(line));
    return all;
  }

  std::multiset<std::string> keys(const std::string& file) const {
    std::multiset<std::string> all;
    for (const Json& record : lines(file)) all.insert(record["key"].get<std::string>());
    return all;
  }

  void write_lines(const std::string& file, const std::vector<Json>& records) const {
    std::string text;
    for (const Json& record : records) text += record.dump() + "\n";
    write(file, text);
  }
};

TEST_F(CliMerge, ShardsMergedAreTheSweep) {
  make_shards();
  const Result merged = run("merge s.1.jsonl s.2.jsonl --out deep/all.jsonl");
  EXPECT_EQ(merged.code, 0) << merged.out << merged.err;
  EXPECT_EQ(merged.out, "16 points of 2 files in deep/all.jsonl.\n");
  ASSERT_EQ(run(kSweep + "--out whole.jsonl").code, 0);
  EXPECT_EQ(keys("deep/all.jsonl"), keys("whole.jsonl"));
  // It is the same word by word, and as often as anybody likes.
  EXPECT_EQ(read(folder_ / "deep/all.jsonl"),
            read(folder_ / "s.1.jsonl") + read(folder_ / "s.2.jsonl"));
  const Result again = run("merge deep/all.jsonl s.1.jsonl --out deep/all.jsonl");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_PRED2(contains, again.out, "16 points of 2 files in deep/all.jsonl (8 ");
  EXPECT_EQ(run(kSweep + "--resume deep/all.jsonl --dry-run").code, 0);
}

TEST_F(CliMerge, WhatAReaderShouldKnowEndsWithFive) {
  make_shards();
  std::vector<Json> other = lines("s.1.jsonl");
  other.resize(2);
  other[0]["timestamp"] = "2099-01-01T00:00:00Z";
  other[0]["time"]["median_s"] = 10.0;
  other[0]["time"]["contenders"] = 1;
  write_lines("other.jsonl", other);
  const Result result = run("merge s.1.jsonl other.jsonl --out all.jsonl");
  EXPECT_EQ(result.code, 5) << result.err;
  for (const char* words :
       {"1 record left out, since a later one of the same point counts:", "disagree by more than",
        "did not all take turns together:", "Sweep flags: shard 2/2 has no records here.",
        "8 points of 2 files in all.jsonl"}) {
    EXPECT_PRED2(contains, result.out, words);
  }
  EXPECT_EQ(lines("all.jsonl")[0]["time"]["median_s"], 10.0);
}

TEST_F(CliMerge, NothingIsLostByAWrongCommand) {
  make_shards();
  write("text.jsonl", "no records\n");
  write("empty.jsonl", "");
  const std::string before = read(folder_ / "s.2.jsonl");
  const std::pair<const char*, const char*> cases[] = {
      {"s.1.jsonl --out s.2.jsonl", "--out: s.2.jsonl is there already: name it among the files"},
      {"s.1.jsonl", "--out is required"},
      {"nowhere.jsonl --out a.jsonl", "nowhere.jsonl: cannot open it"},
      {"text.jsonl --out a.jsonl", "text.jsonl:1: not JSON"},
      {"empty.jsonl --out a.jsonl", "the files hold no records"}};
  for (const auto& [words, message] : cases) {
    const Result result = run(std::string("merge ") + words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_PRED2(contains, result.err, message);
  }
  EXPECT_EQ(read(folder_ / "s.2.jsonl"), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.jsonl"));
}

// Starts the script of a task with a program that ends with 3, before or after it ran the shard.
class CliBatchScript : public CliMerge {
 protected:
  int end_of_task(const std::string& settings, bool runs_shard) const {
    const std::string real = "'" + in_build("attnlab") + "' \"$@\"";
    write("fake", "#!/bin/sh\ncase $1 in run) " + (runs_shard ? real + "; " : "") +
                      "exit 3 ;; esac\nexec " + real + "\n");
    write("sweep.json",
          R"({"schema": "attnlab.sweep/1", "name": "s", "backend": "cpu", "axes": {"kernel": "v2",
              "heads": 1, "head_dim": 8, "block": "16x16", "seqlen": "8:64:x2"},
              "protocol": {"min_rounds": 1, "max_rounds": 1, "warmup_seconds": 0}})");
    const std::string command = fmt::format(
        "cd '{}' && chmod +x fake && {} {} SLURM_ARRAY_TASK_ID=1 ATTNLAB=./fake bash "
        "'{}' 2 sweep.json out >said 2>&1",
        folder_.string(), environment(), settings, in_tree("scripts/slurm/sweep.sbatch"));
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(CliBatchScript, OnlyAShardThatIsNotWholeIsQueuedAgain) {
  EXPECT_EQ(end_of_task("", false), 75) << "it has no record";
  EXPECT_PRED2(contains, read(folder_ / "said"), "to be queued again");
  EXPECT_EQ(end_of_task("", true), 3) << "of an invalid measurement: " << read(folder_ / "said");
  std::vector<Json> some = lines("out/1.jsonl");
  ASSERT_EQ(some.size(), 2u);
  some.pop_back();
  write_lines("out/1.jsonl", some);
  EXPECT_EQ(end_of_task("", false), 75);
  EXPECT_EQ(end_of_task("SLURM_RESTART_COUNT=5", false), 3) << "enough of it";
}

TEST_F(CliMerge, ATableSaysHowFarShardsAre) {
  make_shards();
  const Result done = run("table s.1.jsonl s.2.jsonl --progress");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_PRED2(contains, done.out, "16 of 16 points done, 0 failed.\n");
  std::vector<Json> half = lines("s.1.jsonl");
  half.resize(half.size() / 2);
  write_lines("half.jsonl", half);
  const Result open = run("table half.jsonl --progress --format json");
  EXPECT_EQ(Json::parse(open.out)[0]["done"], half.size());
  std::string text = run("table half.jsonl --progress").out;
  std::ranges::replace(text, '\n', ' ');  // where lines are broken depends on the speed
  EXPECT_PRED2(contains, text, "Without a record yet: 2/2.");
  for (const auto& [words, message] :
       {std::pair("--progress --evidence", "--progress: --evidence is another table"),
        std::pair("--progress --rows seqlen", "--progress: has columns of its own")}) {
    const Result result = run(std::string("table half.jsonl ") + words);
    EXPECT_EQ(result.code, 2);
    EXPECT_PRED2(contains, result.err, message);
  }
}

}  // namespace
}  // namespace attnlab
