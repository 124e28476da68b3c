#include "harness/session/experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "harness/base/text_file.h"
#include "harness/testing/test_support.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

class Experiment : public testing::Test {
 protected:
  std::string command(const ExperimentCut& cut, bool resumes) const {
    return fmt::format("{}", fmt::join(run_command(cut, files_, resumes, false), " "));
  }

  TestFolder folder_;
  ExperimentFiles files_ = {.sweep = folder_.path() / "a.sweep.json",
                            .records = folder_.path() / "a.jsonl"};
};

TEST_F(Experiment, GoesOnWhereThereAreRecords) {
  const std::string begin =
      fmt::format("attnlab run {} --format csv --no-hints ", files_.sweep.string());
  const std::string end = fmt::format(" {} --no-progress", files_.records.string());
  EXPECT_EQ(command({}, false), begin + "--out" + end);
  EXPECT_EQ(command({}, true), begin + "--out" + end);
  replace_text(files_.records, "{}\n");
  EXPECT_EQ(command({}, true), begin + "--resume" + end);
}

TEST_F(Experiment, MeasuresAgainWhatDidNotSettle) {
  EXPECT_FALSE(contains(command({.unsettled = true}, true), "--unsettled"));
  replace_text(files_.records, "{}\n");
  EXPECT_TRUE(contains(command({.unsettled = true}, true), "--unsettled"));
  EXPECT_FALSE(contains(command({}, true), "--unsettled"));
}

// An interrupted run on several GPUs has parts, and no file of all.
TEST_F(Experiment, GoesOnWithPartsOfSeveralGpus) {
  const std::string begin =
      fmt::format("attnlab run {} --format csv --no-hints --devices=0,2 ", files_.sweep.string());
  const std::string end = fmt::format(" {} --no-progress", files_.records.string());
  EXPECT_EQ(command({.devices = "0,2"}, false), begin + "--out" + end);
  EXPECT_EQ(command({.devices = "0,2"}, true), begin + "--resume" + end);
}

}  // namespace
}  // namespace attnlab
