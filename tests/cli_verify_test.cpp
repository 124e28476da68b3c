// Runs attnlab verify, as a user calls it. (A failing kernel cannot be had on the command line:
// exit code 1 is seen with wrong kernels, in process.)
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

class CliVerify : public Cli {
 protected:
  Result verify(const std::string& arguments) const {
    return run("verify --no-progress --threads 2 " + arguments);
  }
};

TEST_F(CliVerify, ChecksWhatItsNameSays) {
  const Result result = verify("--only 'v2/shapes/lengths/65/*' --junit out.xml");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_PRED2(contains, result.out, "v2        24     0     0 ");
  EXPECT_PRED2(contains, result.out, "JUnit report: out.xml");
  EXPECT_LE(width(result.out), kPageWidth);
  const std::string junit = read(folder_ / "out.xml");
  EXPECT_PRED2(contains, junit, "<testsuite name=\"cpu.v2.shapes\" tests=\"24\" failures=\"0\"");
  EXPECT_PRED2(contains, junit, "name=\"v2/shapes/lengths/65/causal/f16/bwd\"");
}

TEST_F(CliVerify, WithoutAGpuItsKernelsAreSkippedWithTheReason) {
  const Result result = verify("--backend cuda --kernel naive");
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_PRED2(contains, result.out, "this machine has no cuda device: ");
}

TEST_F(CliVerify, FlagsChooseParts) {
  const Result result = verify("--kernel v1 --random 2 --repeat 2 --seed 3 --format json");
  EXPECT_EQ(result.code, 0) << result.err;
  int random = 0;
  for (const auto& check : nlohmann::json::parse(result.out)) {
    EXPECT_EQ(check["kernel"], "v1");
    const std::string part = check["part"];
    EXPECT_TRUE(part == "random" || part == "repeats") << part;
    random += part == "random" ? 1 : 0;
  }
  EXPECT_EQ(random, 3 * 2);
  EXPECT_PRED2(contains, result.err, "Random problems judged, by pass, and forward of e4m3:\n");
  EXPECT_PRED2(contains, result.err, "\nv1        2    2       2     0\n");
}

TEST_F(CliVerify, ASkippedCheckSaysWhyAndIsNoSuccess) {
  const Result lacks = verify("--only minimal/shapes/lengths/65/causal/f32/bwd");
  EXPECT_EQ(lacks.code, 3);
  EXPECT_PRED2(contains, lacks.out, "1 minimal: minimal is a teaching kernel: it has no backward");
  const Result other_isa = verify("--kernel v2 --isa nonsense --only '*/lengths/65/none/f32/fwd'");
  EXPECT_EQ(other_isa.code, 2);
  EXPECT_PRED2(contains, other_isa.err,
               "--isa: this processor has no instruction set 'nonsense'; it has: ");
  EXPECT_EQ(other_isa.out, "") << "nothing was planned";
}

TEST_F(CliVerify, BadFlagsEndWithTwoAndARemedy) {
  const std::pair<const char*, const char*> bad[] = {
      {"--kernel v22", "did you mean 'v2'?"},
      {"--only 'v2/shape/*'", "matches no check"},
      {"--only 'v2/shape/*' --junit out.xml", "matches no check"},
      {"--random 0", "--random"},
      {"--repeat 1", "--repeat"},
      {"--seed x", "--seed"},
      {"--backend gpu", "'gpu' is not a backend"},
      {"--format xml", "'xml' is not a format"},
      {"--junit missing/out.xml", "'missing/out.xml' cannot be written"},
      {"--propertise", "did you mean '--properties'?"}};
  for (const auto& [flags, message] : bad) {
    const Result result = verify(flags);
    EXPECT_EQ(result.code, 2) << flags;
    EXPECT_PRED2(contains, result.err, message);
  }
  EXPECT_TRUE(is_empty());
}

TEST_F(CliVerify, HelpFitsThePageAndHasExamples) {
  const Result help = run("verify --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_LE(width(help.out), kPageWidth);
  EXPECT_PRED2(contains, help.out, "attnlab verify --kernel v2 --only v2/random/7/13/bwd");
}

TEST_F(CliVerify, ProgressNamesGroupsOfChecks) {
  const Result result = run("verify --kernel v2 --repeat 2");
  EXPECT_EQ(result.code, 0);
  EXPECT_PRED2(contains, result.err, "left  repeats/dense\n");
  EXPECT_PRED2(contains, result.err, "left  repeats/packed\n");
}

}  // namespace
}  // namespace attnlab
