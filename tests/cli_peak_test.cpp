// Runs attnlab peak, as a user calls it where there is no GPU.
#include "harness/base/text_table.h"
#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

class CliPeak : public Cli {};

TEST_F(CliPeak, WithoutAGpuItSaysWhy) {
  const Result result = run("peak --cache-dir cache");
  EXPECT_EQ(result.code, 3) << result.out;
  EXPECT_EQ(result.out, "");
  EXPECT_PRED2(starts_with, result.err, "attnlab peak: peaks are measured of a GPU: ");
  EXPECT_TRUE(is_empty());
}

TEST_F(CliPeak, FlagsAreChecked) {
  EXPECT_EQ(run("peak --format xml").code, 2);
  EXPECT_EQ(run("peak --agian").code, 2);
  const Result debug = run("peak --debug-kernels");
  EXPECT_EQ(debug.code, 2);
  EXPECT_PRED2(contains, debug.err, "--debug-kernels");
}

TEST_F(CliPeak, HelpFitsThePage) {
  const Result result = run("peak --help");
  EXPECT_EQ(result.code, 0);
  EXPECT_PRED2(contains, result.out, "attnlab peak --again");
  EXPECT_LE(width(result.out), kPageWidth);
}

}  // namespace
}  // namespace attnlab
