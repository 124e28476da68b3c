// attnlab reproduce as a user calls it, on a CPU.
#include <nlohmann/json.hpp>

#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

class CliReproduce : public Cli {};

TEST_F(CliReproduce, ListsTablesWithWhatTheyNeed) {
  const Result listed = run("reproduce");
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_PRED2(contains, listed.out, "fa1-table21");
  EXPECT_PRED2(contains, listed.out, "needs: ");
  EXPECT_PRED2(contains, listed.out, "of 126 published tables");
  const Json json = Json::parse(run("reproduce --format json").out);
  EXPECT_GT(json.size(), 5u);
  for (const Json& paper : json) EXPECT_GT(paper["claims"], 0) << paper["name"];
}

TEST_F(CliReproduce, RefusesWhatItCannotDo) {
  const std::pair<const char*, const char*> wrong[] = {
      {"reproduce fa1-tabel21", "there is no table 'fa1-tabel21'; did you mean 'fa1-table21'?"},
      {"reproduce fa1-table1", "fa1-table1: is published, and not measured here"},
      {"reproduce fa1-table21 --resume", "--resume: name the folder of the run by --out"},
      {"reproduce --records . --quick", "--quick: leave it out beside --records"},
      {"reproduce --records .", "holds records of no paper's file"},
      {"reproduce fa1-table21 --against x", "--against: is of --check"},
      {"reproduce fa1-table21 --backend gpu", "--backend: 'gpu' is not a backend"},
  };
  for (const auto& [arguments, message] : wrong) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_PRED2(contains, result.err, message);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_) || !std::filesystem::exists(folder_ / "results"));
}

// The whole way: run, tables, verdicts, files; then again from the records alone.
TEST_F(CliReproduce, MeasuresMemoryOnACpu) {
  const Result ran = run("reproduce fa1-table21 --backend cpu --quick --out p --no-progress");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_PRED2(contains, ran.out, "fa1-table21: FlashAttention Table 21");
  EXPECT_PRED2(contains, ran.out, "Cut to: ");
  EXPECT_PRED2(contains, ran.out, "reproduced (R)");
  Json result;
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "p")) {
    if (entry.path().string().ends_with(".result.json")) file = entry.path();
  }
  ASSERT_FALSE(file.empty());
  const std::string first = read(file);
  result = Json::parse(first);
  EXPECT_EQ(result["schema"], "attnlab.reproduction/1");
  // Once more: nothing is left to run, and what is made of the records is the same to the byte.
  const Result refused = run("reproduce fa1-table21 --backend cpu --quick --out p");
  EXPECT_EQ(refused.code, 2);
  EXPECT_PRED2(contains, refused.err, "--resume goes on with them");
  const Result other = run("reproduce fa1-table21 --backend cpu --out p --resume");
  EXPECT_EQ(other.code, 2);
  EXPECT_PRED2(contains, other.err, "is not the sweep that would run now");
  const Result again =
      run("reproduce fa1-table21 --backend cpu --quick --out p --resume --no-progress");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, ran.out);
  EXPECT_EQ(read(file), first);
  const Result made = run("reproduce fa1-table21 --records p");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, ran.out);
}

TEST_F(CliReproduce, ChecksAgainstAnEarlierRun) {
  ASSERT_EQ(run("reproduce fa1-table21 --backend cpu --quick --out p --no-progress").code, 0);
  EXPECT_EQ(run("reproduce --records p --check --against p").code, 0);
  std::filesystem::copy(folder_ / "p", folder_ / "q");
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "q")) {
    if (!entry.path().string().ends_with(".result.json")) continue;
    Json result = Json::parse(read(entry.path()));
    for (Json& claim : result["claims"]) {
      if (claim["finding"] == "S" || claim["finding"] == "N") claim["finding"] = "R";
      if (claim["finding"] == "U") claim["finding"] = "R";  // it had a verdict
    }
    std::ofstream(entry.path()) << result.dump();
  }
  const Result worse = run("reproduce --records p --check --against q");
  EXPECT_TRUE(worse.code == 3 || worse.code == 4) << worse.code;
  EXPECT_TRUE(contains(worse.out, "lost: ") || contains(worse.out, "worse: ")) << worse.out;
  const Result none = run("reproduce --records p --check --against nowhere");
  EXPECT_EQ(none.code, 2);
  EXPECT_PRED2(contains, none.err, "there is no earlier result");
}

}  // namespace
}  // namespace attnlab
