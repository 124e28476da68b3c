#include "harness/report/two_runs.h"

#include <gtest/gtest.h>

#include "harness/testing/one_line.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

class TwoRunsTest : public ::testing::Test {
 protected:
  static PaperFile paper() {
    PaperFile paper;
    paper.name = "paper";
    for (const char* id : {"same", "moved", "fell", "lost", "bare"}) {
      paper.claims.push_back({.id = id});
    }
    return paper;
  }

  // Makes a run of the paper: a finding and a figure a claim, 0 for none.
  Reproduction run(const std::vector<std::pair<Finding, double>>& found) const {
    Reproduction made{.paper = &paper_, .device = "A GPU"};
    made.environment = {{"commit", "abc"},
                        {"measured", "2026-11-30T22:16:28Z to 2026-12-01T00:17:13Z"}};
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& [finding, value] = found[i];
      Judgement judgement{.finding = finding, .reason = "because"};
      if (value != 0.0) judgement.measured = value;
      made.claims.push_back({&paper_.claims[i], judgement});
    }
    return made;
  }

  TwoRuns both() const {
    return {.here = "here",
            .there = "there",
            .claims = pair_claims(here_, there_),
            .missing = {"another"}};
  }

  PaperFile paper_ = paper();  // before the runs, which point to its claims
  Reproduction here_ = run({{Finding::reproduced, 1.0},
                            {Finding::reproduced, 1.04},
                            {Finding::not_reproduced, 0.5},
                            {Finding::in_shape, 2.0},
                            {Finding::not_applicable, 0.0}});
  Reproduction there_ = run({{Finding::reproduced, 1.0},
                             {Finding::reproduced, 1.0},
                             {Finding::reproduced, 1.0},
                             {Finding::not_run, 0.0},
                             {Finding::not_run, 0.0}});  // no verdict, as here
};

TEST_F(TwoRunsTest, SaysHowManyVerdictsAndFiguresAgree) {
  const std::string text = render_two_runs(both(), TableFormat::table);
  EXPECT_PRED2(contains, text, "Of 5 claims 3 have the same verdict in both runs, 1 have another");
  EXPECT_PRED2(contains, one_line(text), "another, 1 have one (R, S or N) in one run alone. Of 3 ");
  EXPECT_PRED2(contains, one_line(text),
               "Of 3 figures that both have, 1 are within 2 %, 2 are within 5 % of one another.");
  EXPECT_PRED2(contains, text, "Only one of the runs has records of another.");
  EXPECT_PRED2(contains, text, "fell: here N: because; there R: because");
  EXPECT_PRED2(contains, text, "lost: here S: because; there U: because");
  EXPECT_FALSE(contains(text, "moved: here"));
}

// A figure that is half of the other is as far from it as one that is twice of it.
TEST_F(TwoRunsTest, AFigureMayBeSmallerOrLarger) {
  std::swap(here_, there_);
  EXPECT_PRED2(contains, one_line(render_two_runs(both(), TableFormat::table)),
               "1 are within 2 %, 2 are within 5 %");
}

TEST_F(TwoRunsTest, HasAllDigitsForPrograms) {
  const std::string csv = render_two_runs(both(), TableFormat::csv);
  EXPECT_PRED2(contains, csv, "experiment,claim,here verdict,here measured,there verdict,");
  EXPECT_PRED2(contains, csv, "paper,moved,R,1.04,R,1,1.04,\r\n");
  EXPECT_PRED2(contains, csv, "paper,fell,N,0.5,R,1,0.5,here because; there because\r\n");
  const Json json = Json::parse(render_two_runs(both(), TableFormat::json));
  EXPECT_EQ(json["same_verdicts"], 3);
  EXPECT_EQ(json["other_verdicts"], 1);
  EXPECT_EQ(json["claims"][2]["ratio"], 0.5);
  EXPECT_TRUE(json["claims"][3]["ratio"].is_null());
  EXPECT_EQ(json["claims"][3]["there"]["finding"], "U");
}

// A claim of no figure, or of one that is 0 or less, has no ratio.
TEST_F(TwoRunsTest, ARatioIsOfTwoFigures) {
  ClaimOfTwoRuns claim{.here = {.measured = 0.0}, .there = {.measured = 1.0}};
  EXPECT_FALSE(ratio_of(claim));
  claim.here.measured = -1.0;
  EXPECT_FALSE(ratio_of(claim));
  claim.here.measured = 3.0;
  EXPECT_EQ(ratio_of(claim), 3.0);
  claim.there.measured.reset();
  EXPECT_FALSE(ratio_of(claim));
}

TEST_F(TwoRunsTest, ARunIsDescribedByWhatItsRecordsSay) {
  EXPECT_EQ(describe_run("f", {here_, there_}), "f: A GPU, commit abc, 2026-11-30 to 2026-12-01");
  there_.device = "Another";
  there_.environment = {{"commit", "def"}, {"measured", "2026-11-30T22:16:28Z"}};
  EXPECT_EQ(describe_run("f", {here_, there_}),
            "f: A GPU, Another, commit abc, def, 2026-11-30 to 2026-12-01");
  EXPECT_EQ(describe_run("f", {there_}), "f: Another, commit def, 2026-11-30");
}

}  // namespace
}  // namespace attnlab
