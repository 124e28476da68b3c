#include "harness/gate/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/gate/comparison_report.h"
#include "harness/record/record_file.h"
#include "harness/report/field.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;

// A record of a kernel that took about `seconds` a launch in 15 rounds; samples differ by 0.2 %.
RecordJson timed(int seqlen, double seconds) {
  std::vector<std::string> warnings;
  const Records small = read_records(in_tree("tests/data/small.jsonl"), warnings);
  RecordJson record = *std::ranges::find(
      small, "ok", [](const RecordJson& of) { return of["status"].get<std::string>(); });
  record["id"] = "point of " + std::to_string(seqlen);
  record["problem"]["seqlen_q"] = record["problem"]["seqlen_k"] = seqlen;
  std::vector<double> samples;
  for (int i = 0; i < 15; ++i) samples.push_back(seconds * (1.0 + 0.002 * (i * 7 % 15) / 15.0));
  record["time"]["samples_s"] = samples;
  record["time"]["median_s"] = median(samples);
  return record;
}

int code_of(const Records& base, const Records& now, const CompareOptions& options = {}) {
  return exit_code(compare(base, now, options), options);
}

TimeVerdict verdict_of(const RecordJson& base, const RecordJson& now,
                       const CompareOptions& options = {}) {
  return compare({base}, {now}, options).points.at(0).time.value().verdict;
}

TEST(Compare, ARecordIsTheSameAsItself) {
  const Records records = {timed(64, 1e-3), timed(128, 2e-3)};
  const Comparison comparison = compare(records, records, {});
  ASSERT_EQ(comparison.points.size(), 2u);
  for (const PointChange& point : comparison.points) {
    EXPECT_EQ(point.time->verdict, TimeVerdict::same);
    EXPECT_EQ(point.time->ratio, 1.0);
    EXPECT_TRUE(point.values.empty());
  }
  EXPECT_EQ(exit_code(comparison, {}), kExitGood);
}

TEST(Compare, SlowerIsFoundAndComesFirst) {
  const Records base = {timed(64, 1e-3), timed(128, 2e-3), timed(256, 4e-3)};
  const Records now = {timed(64, 1e-3), timed(128, 2.2e-3), timed(256, 3e-3)};
  const Comparison comparison = compare(base, now, {});
  EXPECT_EQ(comparison.points[0].time->verdict, TimeVerdict::slower);
  EXPECT_NEAR(comparison.points[0].time->ratio, 1.1, 1e-9);
  EXPECT_EQ(comparison.points[1].time->verdict, TimeVerdict::same);
  EXPECT_EQ(comparison.points[2].time->verdict, TimeVerdict::faster);
  EXPECT_EQ(exit_code(comparison, {}), kExitSlower);
  EXPECT_EQ(code_of(now, now), kExitGood);
  EXPECT_EQ(exit_code(comparison, {.fail_on = {Judged::errors}}), kExitGood);
}

// Runs differ by more than samples of one run do: 3 % is a change within a run alone.
TEST(Compare, TheThresholdDependsOnTheRun) {
  RecordJson base = timed(64, 1e-3), now = timed(64, 1.03e-3);
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::same);
  EXPECT_EQ(verdict_of(base, now, {.threshold = 0.02}), TimeVerdict::slower);
  base["run"] = "a";
  now["run"] = "b";
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::same);
  now["run"] = "a";
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::slower);
}

TEST(Compare, WhatCannotBeToldIsAmbiguous) {
  const RecordJson base = timed(64, 1e-3);
  RecordJson now = timed(64, 1.05e-3);  // the interval holds the threshold
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::ambiguous);
  EXPECT_EQ(code_of({base}, {now}), kExitAmbiguous);
  now = timed(64, 1.5e-3);  // three samples can never be surely apart
  now["time"]["samples_s"] = {1.49e-3, 1.5e-3, 1.51e-3};
  RecordJson few = base;
  few["time"]["samples_s"] = {0.99e-3, 1e-3, 1.01e-3};
  EXPECT_EQ(verdict_of(few, now), TimeVerdict::ambiguous);
  now = timed(64, 1e-3);
  now["time"]["telemetry"] = {{"settled", false}};
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::ambiguous);
  now = timed(64, 1e-3);
  for (RecordJson& tensor : now["verify"]) tensor["coverage"] = 0.5;
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::ambiguous);
}

// Two modes, whose shares differ by one sample: ranks say slower, the median may be of either mode.
TEST(Compare, TheIntervalMustLieAboveOne) {
  std::vector<double> before, after;
  for (int i = 0; i < 15; ++i) {
    before.push_back((i < 8 ? 1.0 : 1.3) + 1e-4 * i);
    after.push_back((i < 7 ? 1.05 : 1.35) + 1e-4 * i);
  }
  RecordJson base = timed(64, 1.0), now = base;
  base["time"]["samples_s"] = before;
  base["time"]["median_s"] = median(before);
  now["time"]["samples_s"] = after;
  now["time"]["median_s"] = median(after);
  const TimeChange change = compare({base}, {now}, {}).points.at(0).time.value();
  EXPECT_LE(change.p, 0.05);
  EXPECT_GT(change.ratio, 1.3);
  EXPECT_LE(change.ratio95.low, 1.0);
  EXPECT_EQ(change.verdict, TimeVerdict::ambiguous);
}

TEST(Compare, CyclesMustAgree) {
  RecordJson base = timed(64, 1e-3), now = timed(64, 1.2e-3);
  base["time"]["telemetry"] = {{"cycles", 1000.0}};
  now["time"]["telemetry"] = {{"cycles", 1200.0}};
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::slower);
  now["time"]["telemetry"] = {{"cycles", 990.0}};
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::ambiguous);
}

// A family of points is told apart less easily than one.
TEST(Compare, ManyPointsAreAdjustedFor) {
  Records base, now;
  for (int i = 0; i < 40; ++i) {
    for (Records* side : {&base, &now}) {
      side->push_back(timed(64 + i, side == &base ? 1e-3 : 1.2e-3));
      auto samples = side->back()["time"]["samples_s"].get<std::vector<double>>();
      samples.resize(5);
      side->back()["time"]["samples_s"] = samples;
    }
  }
  EXPECT_EQ(verdict_of(base[0], now[0]), TimeVerdict::slower);
  EXPECT_EQ(compare(base, now, {}).points[0].time->verdict, TimeVerdict::ambiguous);
}

// Sets one value of the new record, compares, and returns the exit code.
int code_with(const char* pointer, const RecordJson& value, const CompareOptions& options = {}) {
  RecordJson base = timed(64, 1e-3);
  base["compile"] = {{{"unit", "u"},
                      {"entries",
                       {{{"name", "forward"},
                         {"registers", 200},
                         {"spill_store_bytes", 0},
                         {"spill_load_bytes", 0},
                         {"static_shared_bytes", 0},
                         {"dynamic_shared_bytes", 4096}}}}}};
  RecordJson now = base;
  now[RecordJson::json_pointer(pointer)] = value;
  return code_of({base}, {now}, options);
}

TEST(Compare, OtherValuesAreJudged) {
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 200), kExitGood);
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 201), kExitSlower);
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 199), kExitGood);
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 201, {.fail_on = {Judged::spills}}),
            kExitGood);
  EXPECT_EQ(code_with("/compile/0/entries/0/spill_store_bytes", 8), kExitSlower);
  EXPECT_EQ(code_with("/compile/0/entries/0/dynamic_shared_bytes", 4112), kExitSlower);
  EXPECT_EQ(code_with("/verify/0/rel_fro", 2.1e-7), kExitSlower);
  EXPECT_EQ(code_with("/verify/0/rel_fro", 2.01e-7), kExitGood);
  const double peak = timed(64, 1e-3)["memory"]["peak_bytes"].get<double>();
  EXPECT_EQ(code_with("/memory/peak_bytes", peak + 1.0), kExitSlower);
  const double read = timed(64, 1e-3)["traffic"]["requested_read_bytes"].get<double>();
  EXPECT_EQ(code_with("/traffic/requested_read_bytes", 1.02 * read), kExitSlower);
  EXPECT_EQ(code_with("/traffic/requested_read_bytes", 1.005 * read), kExitGood);
}

TEST(Compare, StatusesHaveCodesOfTheirOwn) {
  EXPECT_EQ(code_with("/status", "failed"), kExitVerificationFailed);
  for (const char* status : {"invalid", "unsupported", "out_of_memory", "skipped"}) {
    EXPECT_EQ(code_with("/status", status), kExitEnvironment) << status;
  }
  RecordJson never = timed(64, 1e-3);
  never["status"] = "unsupported";
  EXPECT_EQ(code_of({never}, {never}), kExitGood);
  never["status"] = "invalid";
  EXPECT_EQ(code_of({never}, {never}), kExitEnvironment);
}

TEST(Compare, WhatHasNoPartnerIsNeverDropped) {
  const RecordJson a = timed(64, 1e-3), b = timed(128, 1e-3);
  const Comparison missing = compare({a, b}, {a}, {});
  EXPECT_EQ(missing.missing.size(), 1u);
  EXPECT_EQ(exit_code(missing, {}), kExitAmbiguous);
  const Comparison extra = compare({a}, {a, b}, {});
  EXPECT_EQ(extra.extra.size(), 1u);
  EXPECT_EQ(exit_code(extra, {}), kExitGood);
  const Comparison twice = compare({a, b}, {a, b, b}, {});
  EXPECT_EQ(twice.duplicates.size(), 1u);
  EXPECT_TRUE(twice.missing.empty());
  EXPECT_EQ(exit_code(twice, {}), kExitAmbiguous);
  EXPECT_EQ(code_of({a}, {b}), kExitEnvironment);
  RecordJson skipped = b;  // and then run, by --resume
  skipped["status"] = "skipped";
  EXPECT_EQ(code_of({a, b}, {a, skipped, b}), kExitGood);
}

TEST(Compare, AKernelsOwnChoiceOfConfigMayChange) {
  RecordJson base = timed(64, 1e-3), now = base;
  base["config"] = {{"block_m", 128}};
  now["config"] = {{"block_m", 64}};
  const Comparison comparison = compare({base}, {now}, {});
  ASSERT_EQ(comparison.points.size(), 1u);
  EXPECT_EQ(comparison.points[0].config, "block_m 128 -> 64");
  base["config_asked"] = {{"block_m", 128}};
  now["config_asked"] = {{"block_m", 64}};
  EXPECT_EQ(compare({base}, {now}, {}).missing.size(), 1u);
}

TEST(Compare, RegimesAreTwoPoints) {
  RecordJson settled = timed(64, 1e-3);
  settled["protocol"]["regime"] = "settled";
  const Records both = {timed(64, 1e-3), settled};
  EXPECT_EQ(compare(both, both, {}).points.size(), 2u);
}

TEST(Compare, OtherDevicesAreRefusedOrAdvisory) {
  const RecordJson base = timed(64, 1e-3);
  for (const char* path : {"/device/name", "/protocol/min_rounds", "/device/threads"}) {
    RecordJson now = base;
    now[RecordJson::json_pointer(path)] = 77;
    EXPECT_THROW(compare({base}, {now}, {}), UsageError) << path;
    const CompareOptions across = {.across = true};
    const Comparison comparison = compare({base}, {now}, across);
    EXPECT_EQ(comparison.differences.size(), 1u);
    EXPECT_EQ(exit_code(comparison, across), kExitAmbiguous);
  }
}

TEST(CompareReport, SaysWhatWasFound) {
  const Records base = {timed(64, 1e-3), timed(128, 2e-3)};
  const Records now = {timed(64, 1e-3), timed(128, 2.2e-3)};
  const Comparison comparison = compare(base, now, {});
  const std::string text = render_comparison(comparison, {}, TableFormat::table);
  for (const char* part : {"+10.00 %", "slower", "2 points on both sides, 1 same, 1 slower",
                           "Verdict: worse (exit code 4)."}) {
    EXPECT_PRED2(contains, text, part);
  }
  const RecordJson json = RecordJson::parse(render_comparison(comparison, {}, TableFormat::json));
  EXPECT_EQ(json["exit_code"], 4);
  EXPECT_EQ(json["points"][0]["time"]["verdict"], "slower");
  EXPECT_PRED2(contains, render_comparison(comparison, {}, TableFormat::csv), ",slower,0.002");
  EXPECT_PRED2(contains, render_comparison(comparison, {}, TableFormat::markdown), "| slower |");
}

}  // namespace
}  // namespace attnlab
