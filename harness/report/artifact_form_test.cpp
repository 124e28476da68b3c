#include "harness/report/artifact_form.h"

#include <gtest/gtest.h>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Sets up an experiment of two claims: one is judged, one is not of this device.
class ArtifactForms : public testing::Test {
 protected:
  ArtifactForms() {
    paper_.name = "p";
    paper_.title = "Times";
    claims_[0] = {.id = "fast",
                  .text = "Fast is fast | fast.",
                  .source = "p. 1",
                  .kind = ClaimKind::ratio,
                  .value = "time_ms",
                  .of = {{{"kernel", {"slow"}}}},
                  .over = {{"kernel", {"fast"}}},
                  .where = {{"seqlen", {"128", "256"}}},
                  .statistic = ClaimStatistic::least,
                  .reproduced = {.at_least = 2.0},
                  .shape = {.at_least = 1.0},
                  .tolerance = 0.03};
    claims_[1] = {.id = "other",
                  .text = "Others are slow.",
                  .source = "p. 2",
                  .kind = ClaimKind::not_here,
                  .reason = "there are none"};
  }

  FormExperiment experiment(const std::string& device, const Judgement& judgement) const {
    Reproduction found{.paper = &paper_, .device = device};
    if (!device.empty()) found.environment = {{"device", device}, {"commit", "0123456789ab"}};
    found.claims = {{&claims_[0], judgement},
                    {&claims_[1], {Finding::not_applicable, std::nullopt, "there are none"}}};
    return {.found = found, .arguments = "p", .needs = "1 min of an H200, 2 GiB"};
  }

  PaperFile paper_;
  Claim claims_[2];
};

TEST_F(ArtifactForms, HaveMeasuredAndVerdictOfRecords) {
  ArtifactForm form{.program = "aa", .texts = {{"kernels/x.cuh", "bb"}}, .folder = "dir"};
  form.experiments = {experiment("A GPU", {Finding::in_shape, 1.5, "is 1.5; wanted at least 2"})};
  form.experiments[0].records = {{"p.jsonl", "cc"}};
  const std::string text = render_artifact_form(form);
  for (const char* part : {"aa  attnlab\ncc  p.jsonl\n", "bb  kernels/x.cuh\n", "## p: Times",
                           "- Command: `attnlab reproduce p --out results/paper`",
                           "- Time and memory: 1 min of an H200, 2 GiB", "| device | A GPU |",
                           "| `fast`: Fast is fast \\| fast. | p. 1 | time_ms of kernel slow over "
                           "that of kernel fast, "
                           "least of 2 points: at least 2; in shape: at least 1; at seqlen 128 or "
                           "256 | 3 % | 1.500 | S: "
                           "is 1.5; wanted at least 2 |",
                           "| nothing here: there are none | none |  | X: there are none |"}) {
    EXPECT_PRED2(contains, text, part);
  }
  EXPECT_EQ(render_artifact_form(form), text);
}

TEST_F(ArtifactForms, AreBlankWithoutRecords) {
  ArtifactForm form{.program = "aa"};
  form.experiments = {experiment("", {Finding::not_run, std::nullopt, "no record"})};
  const std::string text = render_artifact_form(form);
  EXPECT_PRED2(contains, text, "The form is blank");
  EXPECT_PRED2(contains, text, "| device |  |\n");
  EXPECT_PRED2(contains, text, "| power limit, W |  |\n");
  EXPECT_PRED2(contains, text, "at seqlen 128 or 256 | 3 % |  |  |\n");
  EXPECT_PRED2(contains, text, "This build has no kernels of a GPU.");
}

}  // namespace
}  // namespace attnlab
