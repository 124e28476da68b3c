// Runs attnlab explain, the real binary, on records of the tree and on points that nobody measured.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

std::string words_of(const std::string& file) { return "explain '" + in_tree(file) + "' "; }

class CliExplain : public Cli {
 protected:
  std::string environment() const override {
    return Cli::environment() + "XDG_CACHE_HOME='" + folder_.string() + "/cache' ";
  }
};

const std::string kFa3 = "results/nvidia-h200/fa3.jsonl";

TEST_F(CliExplain, OneRecordFillsAScreen) {
  const std::string point =
      words_of(kFa3) + "--where kernel=v3 --where seqlen=16384 --where head_dim=128 --point 1";
  const Result result = run(point, "COLUMNS=80");
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part : {"Measured: ", "What binds it: products, ", "Not measured: L2 (its rate",
                           "\ntile ", "\nNext: ", "waves of 132 blocks"}) {
    EXPECT_PRED2(contains, result.out, part);
  }
  EXPECT_LE(count_lines(result.out), 45u);
  // These are rates that were measured on such a GPU.
  const std::string peaks = " --peaks '" + in_tree("results/nvidia-h200/peaks.json") + "'";
  const Result rated = run(point + peaks + " --format json");
  EXPECT_EQ(rated.code, 0) << rated.err;
  const Json json = Json::parse(rated.out);
  EXPECT_EQ(json["schema"], "attnlab.explanation/1");
  EXPECT_EQ(json["limiter"], "products");
  bool knows_l2 = false;
  for (const Json& finding : json["findings"]) {
    knows_l2 |= finding["limiter"] == "L2" && finding["source"] == "counted; l2_read, burst";
  }
  EXPECT_TRUE(knows_l2) << rated.out;
}

TEST_F(CliExplain, SeveralRecordsHaveALineEach) {
  const Result result = run(words_of("results/nvidia-h100/eager.jsonl") +
                            "--where kernel=naive --where seqlen=4096 --format csv");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count_lines(result.out), 17u) << result.out;
  EXPECT_PRED2(contains, result.out, "#,point,kernel,ms,what binds it,% of time\r\n1,fwd/f16/");
  EXPECT_PRED2(contains, result.out, ",naive,6.311,dram,82.6\r\n");
}

TEST_F(CliExplain, APointOnPaperSaysThatNothingWasMeasured) {
  const std::string point = "explain --kernel v3 --backend cuda --gpu H200 --dtype bf16 ";
  const Result result = run(point + "--head-dim 128 --seqlen 16k");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "Nothing was measured. On paper: 1.121 ms at the least");
  EXPECT_PRED2(contains, result.out, "What binds it: products, 989 of 989 TFLOP/s");
  EXPECT_PRED2(contains, result.out, "Next: Measure it: on paper it takes 1.12 ms at the least.");
  EXPECT_PRED2(contains, result.out, "attnlab run --backend cuda --kernel v3 --dtype bf16");
  const Result json = run(point + "--seqlen 16k --format json");
  EXPECT_EQ(Json::parse(json.out)["measured"], false);
}

TEST_F(CliExplain, WhatCannotRunEndsWith3) {
  const Result result = run("explain --kernel v3 --gpu A100 --dtype f16 --seqlen 1k");
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  EXPECT_PRED2(contains, result.out, "unsupported: ");
}

TEST_F(CliExplain, BadInputEndsWith2) {
  struct Bad {
    std::string arguments;
    const char* message;
  };
  write("empty.jsonl", "");
  write("bad.json", "{}");
  for (const Bad& bad : std::initializer_list<Bad>{
           {"explain", "nothing to explain: name a file of records"},
           {"explain nowhere.jsonl", "nowhere.jsonl"},
           {"explain empty.jsonl", "empty.jsonl: holds no records"},
           {words_of(kFa3) + "--kernel v3", "holds points of its own"},
           {words_of(kFa3) + "--point 999", "--point 999: there are"},
           {words_of(kFa3) + "--point 0", "--point"},
           {words_of(kFa3) + "--where kernel", "is not FIELD=VALUE"},
           {words_of(kFa3) + "--peaks bad.json", "bad.json"},
           {words_of("results/cpu/quick.jsonl") + "--peaks '" +
                in_tree("results/nvidia-h200/peaks.json") + "'",
            "they are of NVIDIA H200"},
           {"explain --seqlen 1k --where kernel=v2", "--where: chooses among records"},
           {"explain --seqlen 1k --gpu A100,H200", "--gpu: name one GPU"}}) {
    const Result result = run(bad.arguments);
    EXPECT_EQ(result.code, 2) << bad.arguments;
    EXPECT_PRED2(contains, result.err, bad.message);
  }
}

TEST_F(CliExplain, ARecordOfAnotherFormIsNamed) {
  std::string line = read(in_tree(kFa3));
  line = line.substr(0, line.find('\n') + 1);
  Json record = Json::parse(line);
  record.erase("kernel");
  write("odd.jsonl", record.dump() + "\n");
  const Result result = run("explain odd.jsonl");
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_PRED2(contains, result.err, "odd.jsonl");
}

}  // namespace
}  // namespace attnlab
