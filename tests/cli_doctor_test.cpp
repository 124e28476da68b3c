// Runs attnlab doctor, the real binary, on a machine whose GPUs are hidden.
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

class DoctorCli : public Cli {
 protected:
  std::string environment() const override {
    return Cli::environment() + "ATTNLAB_PYTHON=/nowhere/python XDG_CACHE_HOME=cache ";
  }
};

TEST_F(DoctorCli, WithoutAGpuTheCpuBackendWorksAndCudaDoesNot) {
  const Result result = run("doctor");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_PRED2(contains, result.out, "\nok        CPU ");
  EXPECT_PRED2(contains, result.out, "of 256 tokens: verified and timed\n");
  for (const char* library : {"PyTorch", "cuDNN", "FlashAttention-4"}) {
    EXPECT_PRED2(contains, result.out, std::string("\ndegraded  ") + library + " peer ");
  }
  EXPECT_PRED2(contains, result.out, "The CPU backend works. The CUDA backend does not work: ");
  EXPECT_LE(width(result.out), kPageWidth) << result.out;
}

TEST_F(DoctorCli, WhoAsksForCudaIsToldThatItIsMissing) {
  const Result result = run("doctor --backend cuda");
  EXPECT_EQ(result.code, 3) << result.out;
  EXPECT_FALSE(contains(result.out, "CPU backend works")) << result.out;
  EXPECT_EQ(run("doctor --backend cpu").code, 0);
  EXPECT_EQ(run("doctor --backend gpu").code, 2);
}

TEST_F(DoctorCli, JsonSaysTheSame) {
  const Result result = run("doctor --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("schema"), "attnlab.doctor/1");
  EXPECT_EQ(json.at("works"), (Json{{"cpu", true}, {"cuda", false}}));
  for (const Json& check : json.at("checks")) {
    EXPECT_NE(check.at("finding"), "") << check;
    if (check.at("state") == "ok") {
      EXPECT_EQ(check.at("remedy"), nullptr) << check;
    } else {
      EXPECT_TRUE(check.at("remedy").is_string()) << check;
      EXPECT_NE(check.at("remedy"), "") << check;
    }
  }
}

// Only a build with CUDA has the line of the cache.
TEST_F(DoctorCli, ACacheThatCannotBeWrittenIsMissing) {
  write("file", "");
  const Json json = Json::parse(run("doctor --json --cache-dir file/cache").out);
  for (const Json& check : json.at("checks")) {
    if (check.at("what") != "kernel cache") continue;
    EXPECT_EQ(check.at("state"), "missing") << check;
    EXPECT_EQ(check.at("essential"), true) << check;
  }
}

}  // namespace
}  // namespace attnlab
