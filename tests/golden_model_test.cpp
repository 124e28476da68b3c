// Compares whole answers of attnlab model. To accept new output, run with ATTNLAB_UPDATE_GOLDEN=1
// and read the difference before committing it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/cli/cli.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

struct Result {
  int code = 0;
  std::string out, err;
};

Result model(const std::string& arguments, const std::string& backend = "cpu") {
  std::istringstream stream("attnlab model --threads 2 --backend " + backend + " " + arguments);
  Texts words;
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Result result;
  result.code = run_command_line(static_cast<int>(argv.size()), argv.data());
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

struct Golden {
  const char* file;
  const char* arguments;
  const char* backend = "cpu";
};

void PrintTo(const Golden& golden, std::ostream* stream) { *stream << golden.file; }

class GoldenModel : public testing::TestWithParam<Golden> {};

TEST_P(GoldenModel, IsUnchanged) {
  const Result result = model(GetParam().arguments, GetParam().backend);
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string file = in_tree("tests/golden/") + GetParam().file;
  if (std::getenv("ATTNLAB_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << result.out;
  std::ifstream stream(file);
  ASSERT_TRUE(stream) << file;
  std::stringstream expected;
  expected << stream.rdbuf();
  EXPECT_EQ(result.out, expected.str());
  if (file.ends_with("csv.txt") || file.ends_with("md.txt")) return;
  std::stringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

const Golden kGolden[] = {
    {"model.txt",
     "--kernel naive,v2 --batch 8 --heads 32 --seqlen 8k --head-dim 128 --dtype f16 --mask causal "
     "--block 64x64"},
    {"model-backward.md.txt",
     "--kernel naive,v2 --pass fwdbwd --seqlen 256 --head-dim 128 --heads 4 --heads-kv 2 --mask "
     "causal --block 64x64 --gpu h100,T4 --format markdown"},
    {"model-several.txt",
     "--kernel naive,v2 --seqlen 1k:16k:x4 --mask none,causal --dtype f32,f16"},
    {"model.csv.txt", "--kernel naive,v2 --seqlen 256,512 --mask causal --gpu A100 --format csv"},
    // It is the same in every build, with CUDA's headers or without.
    {"model-gpu.txt",
     "--pass fwdbwd --seqlen 4k --head-dim 128 --dtype f16 --mask causal --gpu H200", "cuda"},
};

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::ValuesIn(kGolden));

TEST(ModelVerb, BadInputIsExitTwoWithARemedy) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "name a sweep file"},
      {"--seqlen 64 --gpu A10", "--gpu: no data of a GPU 'A10'; did you mean 'A100'?"},
      {"--seqlen 64 --gpus A100", "did you mean '--gpu'?"},
      {"--seqlen 64 --format text", "--format: 'text'"},
      {"--seqlen 64x", "--seqlen: '64x'"},
      {"--kernel v22", "did you mean 'v2'?"},
      {"--seqlen 2097152k", "above 2^56"},
      {"--seqlen 64k --head-dim 2097152k", "lower --seqlen, --batch or --head-dim"},
      {"nowhere.json", "no such file"},
  };
  for (const auto& [arguments, message] : cases) {
    const Result result = model(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_PRED2(contains, result.err, message);
    EXPECT_EQ(result.out, "") << arguments;
  }
}

TEST(ModelVerb, HelpHasExamplesAndFitsThePage) {
  const Result result = model("--help");
  EXPECT_EQ(result.code, 0);
  EXPECT_PRED2(contains, result.out, "Examples:\n  attnlab model ");
  EXPECT_PRED2(contains, result.out, "--gpu");
  std::stringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// A kernel is counted at every point, also in sweeps that are made for a GPU.
TEST(ModelVerb, EveryShippedSweepHasAModel) {
  int sweeps = 0;
  for (const auto& file : std::filesystem::directory_iterator(in_tree("sweeps"))) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".json") || name == "sweep.schema.json") continue;
    SCOPED_TRACE(name);
    ++sweeps;
    const Result result = model(file.path().string() + " --format json --gpu A100");
    ASSERT_EQ(result.code, 0) << result.err;
    const nlohmann::json points = nlohmann::json::parse(result.out).at("points");
    EXPECT_GT(points.size(), 0U);
    for (const nlohmann::json& point : points) {
      const auto& kernels = point.at("kernels");
      EXPECT_TRUE(std::ranges::any_of(kernels, [](const nlohmann::json& kernel) {
        return kernel.at("status") == "counted";
      })) << point.at("id");
    }
  }
  EXPECT_GT(sweeps, 0);
}

}  // namespace
}  // namespace attnlab
