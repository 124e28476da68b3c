#include "harness/plan/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/plan/cost.h"
#include "harness/plan/expand.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/sweep_axes.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

std::vector<std::string> names_of(const std::vector<Case>& cases) {
  std::vector<std::string> names;
  for (const Case& work : cases) {
    for (const Competitor& competitor : work.competitors) {
      names.push_back(work.problem.id() + " " + competitor.kernel + " " +
                      competitor.config.to_string());
    }
  }
  return names;
}

// Sets up a sweep of 864 points in 288 cases, with both layouts of 144 problems.
class Shards : public testing::Test {
 protected:
  Shards() {
    sweep_.source = "a.json";
    set_axis(sweep_, "pass", "fwd,bwd", "pass");
    set_axis(sweep_, "layout", "bshd,bhsd", "layout");
    set_axis(sweep_, "heads", "2,4", "heads");
    set_axis(sweep_, "mask", "none,causal,window:64:0", "mask");
    set_axis(sweep_, "seqlen", "64:2048:x2", "seqlen");
    set_axis(sweep_, "input_kind", "normal,uniform", "input_kind");
    set_axis(sweep_, "block", "32x32,64x64", "block");
    cases_ = expand(sweep_, fake::registry(), device_);
  }

  ShardedCases take(int index, int of) const {
    return take_shard(cases_, {.index = index, .of = of}, protocol_);
  }

  Sweep sweep_;
  Device device_ = fake::cpu();
  Protocol protocol_ = {.warmup_seconds = 0.02};
  std::vector<Case> cases_;
};

TEST_F(Shards, TogetherAreTheSweepWithEachPointOnce) {
  std::vector<std::string> whole = names_of(cases_);
  ASSERT_GE(whole.size(), 500u);
  std::ranges::sort(whole);
  for (const int of : {1, 2, 3, 8, 144}) {
    std::vector<std::string> together;
    for (int index = 1; index <= of; ++index) {
      const ShardedCases shard = take(index, of);
      const std::vector<std::string> names = names_of(shard.cases);
      EXPECT_FALSE(names.empty()) << to_string(shard.part.shard);
      EXPECT_EQ(names.size(), shard.part.points);
      EXPECT_EQ(shard.part.of_points, 864u);
      EXPECT_EQ(names, names_of(take(index, of).cases)) << "cut alike each time";
      together.insert(together.end(), names.begin(), names.end());
    }
    std::ranges::sort(together);
    EXPECT_EQ(together, whole) << of;
  }
}

TEST_F(Shards, KeepTogetherWhatTakesTurns) {
  std::map<std::string, std::set<int>> shards_of;
  for (int index = 1; index <= 8; ++index) {
    for (const Case& work : take(index, 8).cases) {
      Problem any_layout = work.problem;
      any_layout.layout = Layout::bshd;
      shards_of[any_layout.id() + to_string(work.input_kind)].insert(index);
      EXPECT_EQ(work.competitors.size(), 3u);
    }
  }
  EXPECT_EQ(shards_of.size(), 144u);
  for (const auto& [id, shards] : shards_of) EXPECT_EQ(shards.size(), 1u) << id;
}

TEST_F(Shards, TakeEquallyLongByPrediction) {
  std::vector<double> points;
  for (const Case& work : cases_) {
    for (const Competitor& competitor : work.competitors) {
      points.push_back(point_weight(work.problem, competitor, protocol_));
    }
  }
  const auto [cheapest, dearest] = std::ranges::minmax(points);
  EXPECT_GE(dearest, 50.0 * cheapest);
  double longest = 0.0, sum = 0.0;
  for (int index = 1; index <= 8; ++index) {
    const ShardedCases shard = take(index, 8);
    EXPECT_DOUBLE_EQ(shard.part.weight, case_weight(shard.cases, protocol_));
    EXPECT_DOUBLE_EQ(shard.part.of_weight, case_weight(cases_, protocol_));
    longest = std::max(longest, shard.part.weight);
    sum += shard.part.weight;
  }
  EXPECT_LE(longest, 1.25 * sum / 8);
}

// The cut must not depend on what only records or machines know.
TEST_F(Shards, AreOneCutAsLongAsTheyAreCutAlike) {
  const std::string cut = take(1, 8).part.cut;
  EXPECT_EQ(take(5, 8).part.cut, cut);
  EXPECT_NE(take(1, 7).part.cut, cut);
  set_axis(sweep_, "heads", "1,2", "heads");
  cases_ = expand(sweep_, fake::registry(), device_);
  EXPECT_NE(take(1, 8).part.cut, cut);
}

TEST_F(Shards, AreNeverEmpty) {
  for (Case& work : cases_) {
    for (Competitor& competitor : work.competitors) competitor.unsupported = "no";
  }
  for (int index = 1; index <= 144; ++index) EXPECT_EQ(take(index, 144).part.points, 6u);
  EXPECT_PRED2(contains, usage_error([&] { take(1, 145); }),
               "--shard 1/145: the sweep has 144 cases that can be apart: take at most 144 shards");
}

TEST(Shard, IsReadStrictly) {
  EXPECT_EQ(parse_shard("2/8", "--shard"), (Shard{.index = 2, .of = 8}));
  EXPECT_EQ(to_string(parse_shard("1/1", "--shard")), "1/1");
  for (const char* text : {"", "2", "2/", "/8", "0/8", "9/8", "2/8/1", "-1/8", "+1/8", "1.0/8",
                           " 1/8", "1/8 ", "1/100001", "99999999999/99999999999"}) {
    EXPECT_PRED2(contains, usage_error([&] { parse_shard(text, "--shard"); }),
                 std::string("--shard: '") + text + "' is not K/N");
  }
}

}  // namespace
}  // namespace attnlab
