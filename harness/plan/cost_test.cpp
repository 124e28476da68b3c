#include "harness/plan/cost.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

class CaseWeight : public testing::Test {
 protected:
  CaseWeight() {
    work_.problem = {.num_heads_q = 8, .num_heads_kv = 8, .seqlen_q = 4096, .seqlen_k = 4096};
    work_.competitors = {{.kernel = "torch:math"}};  // a peer needs no implementation
  }
  double weight() const { return case_weight(work_, protocol_); }

  Case work_;
  Protocol protocol_ = {.min_rounds = 3, .max_seconds = 1000.0, .warmup_seconds = 0.0};
};

TEST_F(CaseWeight, GrowsWithWorkAndIgnoresWhatDoesNotRun) {
  const double one = weight();
  work_.competitors.push_back(work_.competitors[0]);
  EXPECT_DOUBLE_EQ(weight(), 2 * one);
  EXPECT_DOUBLE_EQ(case_weight({work_, work_}, protocol_), 4 * one);
  work_.competitors[1].unsupported = "no";
  EXPECT_DOUBLE_EQ(weight(), one);
  work_.problem.mask = parse_mask("causal");
  EXPECT_LT(weight(), one);
}

TEST_F(CaseWeight, FollowsTheProtocol) {
  const double three_rounds = weight();
  protocol_.min_rounds = 9;
  EXPECT_GT(weight(), 1.3 * three_rounds);
  const double nine_rounds = weight();
  protocol_.warmup_seconds = 2.0;
  EXPECT_DOUBLE_EQ(weight(), nine_rounds + 2.0);
  protocol_.max_seconds = 0.5;
  EXPECT_LT(weight(), nine_rounds + 2.0);
}

TEST_F(CaseWeight, OfASettledGpuIsThatOfItsTurns) {
  protocol_.regime = Regime::settled;
  work_.competitors[0].backend = Backend::cuda;
  const double turns_of_a_second = weight();
  protocol_.turn_seconds = 2.0;
  EXPECT_DOUBLE_EQ(weight(), turns_of_a_second + 3.0);
  work_.problem.seqlen_q = work_.problem.seqlen_k = 1 << 18;  // a sample outlasts a turn
  const double long_samples = weight();
  protocol_.turn_seconds = 1.0;
  EXPECT_DOUBLE_EQ(weight(), long_samples);
}

TEST_F(CaseWeight, SecondsFollowThePace) {
  work_.competitors.push_back(work_.competitors[0]);
  const auto seconds = [&](const Pace& pace) { return case_seconds(work_, protocol_, pace); };
  constexpr double kFlops = 4.0 * 8 * 4096 * 4096 * 64;  // a launch of one second
  EXPECT_DOUBLE_EQ(seconds({.flops_per_s = kFlops}), 2 * 3.0);
  EXPECT_DOUBLE_EQ(seconds({.flops_per_s = kFlops, .point_s = 0.5, .untimed_launches = 4.0}),
                   2 * (3.0 + 0.5 + 4.0));
}

}  // namespace
}  // namespace attnlab
