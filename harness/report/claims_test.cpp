#include "harness/report/claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/record/record_file.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;

// Makes a record of a kernel that took so many milliseconds.
RecordJson timed(const std::string& kernel, int seqlen, double ms) {
  static const RecordJson kOne = [] {
    std::vector<std::string> warnings;
    const Records small = read_records(in_tree("tests/data/small.jsonl"), warnings);
    return *std::ranges::find(small, "ok",
                              [](const RecordJson& of) { return of["status"].get<std::string>(); });
  }();
  RecordJson record = kOne;
  record["kernel"] = kernel;
  record["key"] = kernel + " at " + std::to_string(seqlen);
  record["problem"]["seqlen_q"] = record["problem"]["seqlen_k"] = seqlen;
  record["time"]["median_s"] = 1e-3 * ms;
  return record;
}

// Makes records of two kernels at three lengths: slow takes 1, 4, 16 ms, fast 2, 2, 4 ms.
Records two_kernels() {
  return {timed("slow", 128, 1.0), timed("slow", 256, 4.0), timed("slow", 512, 16.0),
          timed("fast", 128, 2.0), timed("fast", 256, 2.0), timed("fast", 512, 4.0)};
}

Conditions kernel(const std::string& name) { return {{"kernel", {name}}}; }

Claim claim_of(ClaimKind kind) {
  return {.id = "c",
          .kind = kind,
          .value = "time_ms",
          .of = {kernel("slow")},
          .over = kernel("fast"),
          .where = {{"seqlen", {"128", "256", "512"}}}};
}

Finding finding_of(const Claim& claim, const Records& records) {
  return judge(claim, records).finding;
}

// Judges a claim whose measured value is `measured` by bounds that lie 0.9 and 1.1 tolerances away.
void expect_sharp(Claim claim, const Records& records, double measured) {
  const Judgement judgement = judge(claim, records);
  ASSERT_TRUE(judgement.measured) << judgement.reason;
  ASSERT_NEAR(*judgement.measured, measured, 1e-9 * std::abs(measured));
  claim.tolerance = 0.02;
  // The value is so many tolerances below the lower bound, or above the upper.
  claim.reproduced = {.at_least = measured / (1.0 - 0.9 * claim.tolerance)};
  EXPECT_EQ(finding_of(claim, records), Finding::reproduced);
  claim.reproduced = {.at_least = measured / (1.0 - 1.1 * claim.tolerance)};
  EXPECT_EQ(finding_of(claim, records), Finding::not_reproduced);
  claim.reproduced = {.at_most = measured / (1.0 + 0.9 * claim.tolerance)};
  EXPECT_EQ(finding_of(claim, records), Finding::reproduced);
  claim.reproduced = {.at_most = measured / (1.0 + 1.1 * claim.tolerance)};
  EXPECT_EQ(finding_of(claim, records), Finding::not_reproduced);
  claim.shape = {.at_least = 0.5 * measured};
  EXPECT_EQ(finding_of(claim, records), Finding::in_shape);
  claim.shape = {.at_least = 1.001 * measured};  // no tolerance widens it
  EXPECT_EQ(finding_of(claim, records), Finding::not_reproduced);
}

TEST(Claims, ARatioHasALeastAMostAndAMean) {
  Claim claim = claim_of(ClaimKind::ratio);  // 0.5, 2, 4
  claim.statistic = ClaimStatistic::least;
  expect_sharp(claim, two_kernels(), 0.5);
  claim.statistic = ClaimStatistic::most;
  expect_sharp(claim, two_kernels(), 4.0);
  claim.statistic = ClaimStatistic::mean;
  expect_sharp(claim, two_kernels(), std::cbrt(4.0));
}

TEST(Claims, AValueStandsAlone) {
  Claim claim = claim_of(ClaimKind::value);
  claim.statistic = ClaimStatistic::most;
  expect_sharp(claim, two_kernels(), 16.0);
}

// A time of zero is wrong (NanNeverPasses), as is a zero in a mean or a ratio.
TEST(Claims, NoBytesAreAValue) {
  Records records = two_kernels();
  for (RecordJson& record : records) record["memory"]["workspace_bytes"] = 0;
  Claim claim = claim_of(ClaimKind::value);
  claim.value = "workspace_mib";
  claim.reproduced = {.at_most = 1.0};
  for (const ClaimStatistic statistic : {ClaimStatistic::least, ClaimStatistic::most}) {
    claim.statistic = statistic;
    EXPECT_EQ(finding_of(claim, records), Finding::reproduced);
  }
  records[0]["memory"]["workspace_bytes"] = 2 << 20;
  EXPECT_EQ(finding_of(claim, records), Finding::not_reproduced);
  claim.statistic = ClaimStatistic::mean;
  EXPECT_EQ(finding_of(claim, records), Finding::not_run);
  claim.kind = ClaimKind::ratio;
  claim.statistic = ClaimStatistic::most;
  EXPECT_EQ(finding_of(claim, records), Finding::not_run);
}

TEST(Claims, GrowthIsAnExponent) {
  Claim claim = claim_of(ClaimKind::growth);
  claim.along = "seqlen";
  expect_sharp(claim, two_kernels(), 2.0);  // 1, 4, 16 over doubled lengths
  claim.of = {kernel("fast")};
  expect_sharp(claim, two_kernels(), 0.5);  // 2, 2, 4
}

TEST(Claims, ACrossoverIsWhereAKernelStaysSmaller) {
  Claim claim = claim_of(ClaimKind::crossover);
  claim.along = "seqlen";
  claim.of = {kernel("fast")};
  claim.over = kernel("slow");
  expect_sharp(claim, two_kernels(), 256.0);
  Records records = two_kernels();
  records[1]["time"]["median_s"] = 1e-3;  // slow is faster at 256 again
  expect_sharp(claim, records, 512.0);
  records[2]["time"]["median_s"] = 1e-3;
  claim.reproduced = {.at_most = 1e6};
  const Judgement never = judge(claim, records);
  EXPECT_EQ(never.finding, Finding::not_reproduced);
  EXPECT_PRED2(contains, never.reason, "no crossover up to seqlen 512");
}

TEST(Claims, AnOrderHoldsAtEveryPointOrInTheMean) {
  Claim claim = claim_of(ClaimKind::order);
  claim.of = {kernel("fast"), kernel("slow")};
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::in_shape);  // not at 128
  claim.where = {{"seqlen", {"256", "512"}}};
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::reproduced);
  std::ranges::reverse(claim.of);
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::not_reproduced);
  claim.where = {{"seqlen", {"256"}}};  // slow takes twice as long: half of it is missing
  claim.tolerance = 0.5 / 0.9;
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::reproduced);
  claim.tolerance = 0.5 / 1.1;
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::not_reproduced);
}

TEST(Claims, AStatusIsThatOfEveryPoint) {
  Claim claim = claim_of(ClaimKind::status);
  claim.expected = "ok";
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::reproduced);
  Records records = two_kernels();
  records[1]["status"] = "out_of_memory";
  EXPECT_EQ(finding_of(claim, records), Finding::not_reproduced);
  records.erase(records.begin());
  EXPECT_EQ(finding_of(claim, records), Finding::not_run);
}

// Whether a kernel refuses a point shows where there is a device for it alone.
TEST(Claims, AStatusForLackOfADeviceIsNoVerdict) {
  Records records = two_kernels();
  for (RecordJson& record : records) {
    record["status"] = "unsupported";
    record["reason"] = "this machine has no cuda device";
  }
  Claim claim = claim_of(ClaimKind::status);
  claim.expected = "ok";
  EXPECT_EQ(finding_of(claim, records), Finding::not_reproduced);
  for (RecordJson& record : records) record["device"]["name"] = "";
  for (const char* expected : {"ok", "out_of_memory", "unsupported"}) {
    claim.expected = expected;
    const Judgement judgement = judge(claim, records);
    EXPECT_EQ(judgement.finding, Finding::not_run) << expected;
    EXPECT_PRED2(contains, judgement.reason, "is unsupported: this machine has no cuda device");
  }
}

// Makes a claim that would hold of two_kernels() whatever they took.
Claim any_ratio() {
  Claim claim = claim_of(ClaimKind::ratio);
  claim.reproduced = {.at_least = 1e-6};
  return claim;
}

TEST(Claims, WhatIsMissingOrUnfitIsNotRun) {
  const auto reason = [](const Records& records) {
    const Judgement judgement = judge(any_ratio(), records);
    EXPECT_EQ(judgement.finding, Finding::not_run) << judgement.reason;
    EXPECT_FALSE(judgement.measured);
    return judgement.reason;
  };
  ASSERT_EQ(finding_of(any_ratio(), two_kernels()), Finding::reproduced);
  for (std::size_t i = 0; i < two_kernels().size(); ++i) {
    Records records = two_kernels();
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_PRED2(contains, reason(records), "no record");
    records = two_kernels();
    records[i]["status"] = "out_of_memory";
    records[i]["reason"] = "too much";
    EXPECT_PRED2(contains, reason(records), "is out_of_memory: too much");
    records = two_kernels();
    records[i]["time"]["telemetry"] = {{"settled", false}};
    EXPECT_PRED2(contains, reason(records), "did not settle");
    records = two_kernels();
    records[i]["verify_timed"][0]["coverage"] = 0.5;
    EXPECT_PRED2(contains, reason(records), "was sampled");
    records[i]["verify_timed"][0]["whole_heads"] = true;
    EXPECT_EQ(finding_of(any_ratio(), records), Finding::reproduced);
    records = two_kernels();
    records[i]["time"]["median_s"] = nullptr;
    EXPECT_PRED2(contains, reason(records), "its record has no time_ms");
  }
  EXPECT_PRED2(contains, reason({}), "no record");
}

TEST(Claims, BytesNeedNoSettledTime) {
  Records records = two_kernels();
  for (RecordJson& record : records) {
    record["time"]["telemetry"] = {{"settled", false}};
    record["memory"]["peak_bytes"] = 1 << 20;
  }
  Claim claim = any_ratio();
  EXPECT_EQ(finding_of(claim, records), Finding::not_run);
  claim.value = "peak_mib";
  EXPECT_EQ(finding_of(claim, records), Finding::reproduced);
}

TEST(Claims, NanNeverPasses) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), 0.0, -1.0, infinity}) {
    for (std::size_t i = 0; i < two_kernels().size(); ++i) {
      Records records = two_kernels();
      records[i]["time"]["median_s"] = wrong;
      for (const ClaimKind kind : {ClaimKind::ratio, ClaimKind::order, ClaimKind::growth,
                                   ClaimKind::crossover, ClaimKind::value}) {
        Claim claim = claim_of(kind);
        claim.along = "seqlen";
        claim.reproduced = {.at_least = 1e-9};
        if (kind == ClaimKind::order) claim.of = {kernel("fast"), kernel("slow")};
        if (kind == ClaimKind::growth || kind == ClaimKind::value) {
          claim.of = {kernel(i < 3 ? "slow" : "fast")};
        }
        EXPECT_EQ(finding_of(claim, records), Finding::not_run);
      }
    }
  }
}

TEST(Claims, ConditionsThatFitSeveralPointsAreNamed) {
  Records records = two_kernels();
  RecordJson twin = records[0];
  records.push_back(twin);  // measured again: the last counts
  EXPECT_EQ(finding_of(any_ratio(), records), Finding::reproduced);
  records.back()["key"] = "another point";
  const Judgement judgement = judge(any_ratio(), records);
  EXPECT_EQ(judgement.finding, Finding::not_run);
  EXPECT_PRED2(contains, judgement.reason, "fit several points: slow at 128 and another point");
}

TEST(Claims, OfSomethingElseIsNotApplicable) {
  Claim claim = any_ratio();
  claim.applies = {{"backend", {"cuda"}}};
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::not_applicable);
  EXPECT_EQ(finding_of(claim, {}), Finding::not_run);
  claim = {.id = "training", .kind = ClaimKind::not_here, .reason = "it needs a trained model"};
  EXPECT_EQ(finding_of(claim, two_kernels()), Finding::not_applicable);
}

}  // namespace
}  // namespace attnlab
