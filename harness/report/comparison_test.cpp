#include "harness/report/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/record/record_file.h"
#include "harness/report/comparison_report.h"
#include "harness/report/field.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;

// Makes a record of a kernel that took `seconds` a launch in 15 rounds; samples differ by 0.2 %.
RecordJson timed(int seqlen, double seconds) {
  std::vector<std::string> warnings;
  const Records small = read_records(in_tree("tests/data/small.jsonl"), warnings);
  RecordJson record = *std::ranges::find(
      small, "ok", [](const RecordJson& of) { return of["status"].get<std::string>(); });
  record["config_asked"] = nullptr;
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

// A machine may be so noisy that a slowdown by a fifth is below its threshold. Nobody can call that
// the same; but whoever gives a threshold has decided.
TEST(Compare, FarSlowerIsNeverTheSameHoweverNoisyTheMachineIs) {
  const CompareOptions noisy = {.threshold_of = [](const RecordJson&) { return 0.4; }};
  const RecordJson base = timed(64, 1e-3);
  EXPECT_EQ(verdict_of(base, timed(64, 1.08e-3), noisy), TimeVerdict::same);
  EXPECT_EQ(verdict_of(base, timed(64, 1.6e-3), noisy), TimeVerdict::slower);
  EXPECT_EQ(code_of({base}, {timed(64, 1.2e-3)}, noisy), kExitAmbiguous);
  const RecordJson slower = timed(64, 1.2e-3);
  const TimeChange change = compare({base}, {slower}, noisy).points.at(0).time.value();
  EXPECT_EQ(change.verdict, TimeVerdict::ambiguous);
  EXPECT_EQ(change.reason, "slower by more than 10 %, which here may be noise");
  EXPECT_EQ(verdict_of(base, slower, {.threshold = 0.4}), TimeVerdict::same);
}

// All samples of one process share what slows it, so the interval of the pool does not cover it.
TEST(Compare, ProcessesThatDisagreeCannotTell) {
  const auto verdict = [](double now, const RecordJson& bases, const RecordJson& medians) {
    RecordJson base = timed(64, 1e-3), slower = timed(64, now);
    base["time"]["medians_s"] = bases;
    slower["time"]["medians_s"] = medians;
    return verdict_of(base, slower, {.threshold = 0.05});
  };
  const RecordJson steady = {1e-3, 1e-3, 1e-3};
  EXPECT_EQ(verdict(1.1e-3, steady, {1.1e-3, 1.2e-3, 1.01e-3}), TimeVerdict::slower);
  EXPECT_EQ(verdict(1.1e-3, steady, {1.1e-3, 1.2e-3, 0.99e-3}), TimeVerdict::ambiguous);
  EXPECT_EQ(verdict(1.0e-3, steady, {1e-3, 0.9e-3, 1.04e-3}), TimeVerdict::same);
  EXPECT_EQ(verdict(1.0e-3, steady, {1e-3, 1e-3, 1.06e-3}), TimeVerdict::ambiguous);
  EXPECT_EQ(verdict(0.9e-3, steady, {0.9e-3, 0.9e-3, 1.06e-3}), TimeVerdict::ambiguous);
  EXPECT_EQ(verdict(1.0e-3, {2e-3, 1e-3, 1e-3}, {2e-3, 1e-3, 1e-3}), TimeVerdict::same)
      << "what slows both sides of a pair slows neither";
  EXPECT_EQ(verdict(1.0e-3, nullptr, {1e-3, 1e-3, 1.06e-3}), TimeVerdict::ambiguous)
      << "against a stored base";
  EXPECT_EQ(verdict(1.0e-3, steady, {1e-3, nullptr, 1.06e-3}), TimeVerdict::ambiguous);
  EXPECT_EQ(verdict(1.0e-3, {1e-3, 1e-3, nullptr}, {1e-3, 1e-3, 1.06e-3}), TimeVerdict::same)
      << "a pair without two settled clocks says nothing";
  EXPECT_EQ(verdict(1.0e-3, {1e-3, 1e-3}, {1e-3, 1e-3, 1.06e-3}), TimeVerdict::same)
      << "a side that broke off is trouble of its own";
}

TEST(Compare, AStoredBaseIsOfTheSamePowerLimitAndCompiler) {
  RecordJson base = timed(64, 1e-3), now = base;
  const CompareOptions stored = {.base_is_stored = true};
  EXPECT_EQ(code_of({base}, {now}, stored), kExitGood);
  now["device"]["cuda"]["power_limit_w"] = 700.0;
  EXPECT_EQ(code_of({base}, {now}), kExitGood) << "both in one run";
  EXPECT_THROW(compare({base}, {now}, stored), UsageError) << "the base names none";
  base["device"]["cuda"]["power_limit_w"] = 700.0;
  EXPECT_EQ(code_of({base}, {now}, stored), kExitGood);
  base["compile"] = {{{"compiler", "NVRTC 12.6"}}};
  now["compile"] = {{{"compiler", "NVRTC 13.0"}}};
  EXPECT_EQ(code_of({base}, {now}), kExitGood);
  EXPECT_THROW(compare({base}, {now}, stored), UsageError);
  base["status"] = "unsupported";  // so nothing was compiled for it
  base["compile"] = nullptr;
  EXPECT_NO_THROW(compare({base}, {now}, stored));
  EXPECT_NO_THROW(compare({now}, {base}, stored));
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

TEST(Compare, ASmallerChangeThanTheThresholdIsNone) {
  const RecordJson base = timed(64, 1e-3), now = timed(64, 1.03e-3);
  EXPECT_EQ(verdict_of(base, now), TimeVerdict::same);
  EXPECT_EQ(verdict_of(base, now, {.threshold = 0.02}), TimeVerdict::slower);
  EXPECT_EQ(verdict_of(now, base, {.threshold = 0.02}), TimeVerdict::faster);
}

TEST(Compare, EachPointMayHaveAThresholdOfItsOwn) {
  const Records base = {timed(64, 1e-3), timed(128, 2e-3)};
  const Records now = {timed(64, 1.03e-3), timed(128, 2.06e-3)};
  CompareOptions options;
  options.threshold_of = [](const RecordJson& record) {
    return record.at("time").at("median_s").get<double>() > 1.5e-3 ? 0.02 : 0.05;
  };
  const Comparison comparison = compare(base, now, options);
  EXPECT_EQ(comparison.points[0].time->verdict, TimeVerdict::slower);
  EXPECT_EQ(comparison.points[0].time->threshold, 0.02);
  EXPECT_EQ(comparison.points[1].time->verdict, TimeVerdict::same);
  EXPECT_PRED2(contains, render_comparison(comparison, options, TableFormat::table),
               "A change of time below\n2 to 5 % is none");
}

TEST(Compare, OtherNumbersOfRoundsAreAnotherProtocolUnlessTheyMayBe) {
  const RecordJson base = timed(64, 1e-3);
  RecordJson now = base;
  now["protocol"]["min_rounds"] = now["protocol"]["max_rounds"] = 90;
  EXPECT_PRED2(contains, usage_error([&] { compare({base}, {now}, {}); }), "protocol.");
  EXPECT_EQ(code_of({base}, {now}, {.any_rounds = true}), kExitGood);
  now["protocol"]["warmup_launches"] = 99;
  EXPECT_PRED2(contains, usage_error([&] { compare({base}, {now}, {.any_rounds = true}); }),
               "warmup_launches");
}

TEST(Compare, WhereTheBaseIsInvalidNobodyCanTell) {
  RecordJson base = timed(64, 1e-3);
  base["status"] = "invalid";
  base["reason"] = "too fast";
  EXPECT_EQ(code_of({base, timed(128, 1e-3)}, {timed(64, 1e-3), timed(128, 1e-3)}), kExitAmbiguous);
}

// Older records have neither; another GPU of the same kind is a note.
TEST(Compare, ThePowerLimitMustBeTheSame) {
  RecordJson base = timed(64, 1e-3), now = base;
  const auto set = [](RecordJson& record, double watts, const char* uuid) {
    record["device"]["cuda"] = {{"driver", "1"}, {"power_limit_w", watts}, {"uuid", uuid}};
  };
  set(base, 700.0, "GPU-1");
  set(now, 700.0, "GPU-2");
  const Comparison comparison = compare({base}, {now}, {});
  ASSERT_EQ(comparison.notes.size(), 1u);
  EXPECT_PRED2(contains, comparison.notes[0], "GPU-2");
  set(now, 350.0, "GPU-1");
  EXPECT_PRED2(contains, usage_error([&] { compare({base}, {now}, {}); }), "power_limit_w");
  base["device"]["cuda"].erase("power_limit_w");
  EXPECT_EQ(code_of({base}, {now}), kExitGood);
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

// Two modes differ in their shares by one sample: ranks say slower, the median may be of either.
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

// Compares with a base that takes one unit of seconds and one of cycles.
TimeVerdict verdict_with_clock(double seconds, double cycles) {
  RecordJson base = timed(64, 1e-3), now = timed(64, 1e-3 * seconds);
  base["time"]["telemetry"] = {{"cycles", 1000.0}};
  now["time"]["telemetry"] = {{"cycles", 1000.0 * cycles}};
  return verdict_of(base, now);
}

TEST(Compare, CyclesMustAgree) {
  EXPECT_EQ(verdict_with_clock(1.2, 1.2), TimeVerdict::slower);
  EXPECT_EQ(verdict_with_clock(1.2, 1.001), TimeVerdict::ambiguous);
  EXPECT_EQ(verdict_with_clock(1.2, 0.99), TimeVerdict::ambiguous);
  EXPECT_EQ(verdict_with_clock(0.8, 0.8), TimeVerdict::faster);
  EXPECT_EQ(verdict_with_clock(0.8, 0.999), TimeVerdict::ambiguous);
  EXPECT_EQ(verdict_with_clock(1.0, 1.0), TimeVerdict::same);
  EXPECT_EQ(verdict_with_clock(1.0, 1.3), TimeVerdict::ambiguous) << "hidden by a higher clock";
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
  for (std::size_t i = 1; i < base.size(); ++i)
    base[i]["status"] = now[i]["status"] = "unsupported";
  EXPECT_EQ(code_of(base, now), kExitSlower) << "what has no time is no member of the family";
}

// Few samples say nothing, however equal they are; five equal ones do.
TEST(Compare, FewSamplesAreNotTheSame) {
  RecordJson record = timed(64, 1e-3);
  record["time"]["samples_s"] = std::vector<double>(4, 1e-3);
  EXPECT_EQ(verdict_of(record, record), TimeVerdict::ambiguous);
  record["time"]["samples_s"] = std::vector<double>(5, 1e-3);
  EXPECT_EQ(verdict_of(record, record), TimeVerdict::same);
}

TEST(Compare, OlderProtocolsAreHotAndInBursts) {
  RecordJson older = timed(64, 1e-3), newer = older;
  older["protocol"].erase("cache");
  newer["protocol"]["cache"] = "hot";
  newer["protocol"]["regime"] = "burst";
  EXPECT_EQ(code_of({older}, {newer}), kExitGood);
}

TEST(Compare, TheMedianIsThatOfTheSamples) {
  const RecordJson base = timed(64, 1e-3);
  RecordJson now = timed(64, 3e-3);
  now["time"]["median_s"] = 1e-3;
  EXPECT_EQ(code_of({base}, {now}), kExitSlower);
  now["time"]["samples_s"] = {0.0, 0.0};
  EXPECT_THROW(compare({base}, {now}, {}), UsageError);
}

RecordJson entry(const char* name, int registers) {
  return {{"name", name},          {"registers", registers},   {"spill_store_bytes", 0},
          {"spill_load_bytes", 0}, {"static_shared_bytes", 0}, {"dynamic_shared_bytes", 4096}};
}

// Makes a record of two units that both have a kernel `forward`.
RecordJson compiled() {
  RecordJson record = timed(64, 1e-3);
  record["compile"] = {{{"unit", "u"}, {"entries", {entry("forward", 200)}}},
                       {{"unit", "v"}, {"entries", {entry("forward", 100)}}}};
  record["traffic"]["valid"] = true;
  record["traffic"]["l2"] = {{"read_bytes", 1e6}, {"write_bytes", 1e6}};
  return record;
}

// Sets one value of the new record, compares, and returns the exit code.
int code_with(const char* pointer, const RecordJson& value, const CompareOptions& options = {}) {
  const RecordJson base = compiled();
  RecordJson now = base;
  now[RecordJson::json_pointer(pointer)] = value;
  return code_of({base}, {now}, options);
}

TEST(Compare, OtherValuesAreJudged) {
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 200), kExitGood);
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 201), kExitSlower);
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 199), kExitGood);
  EXPECT_EQ(code_with("/compile/1/entries/0/registers", 101), kExitSlower) << "the second one's";
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", 201, {.fail_on = {Judged::spills}}),
            kExitGood);
  EXPECT_EQ(code_with("/compile/0/entries/0/spill_store_bytes", 8), kExitSlower);
  EXPECT_EQ(code_with("/compile/0/entries/0/dynamic_shared_bytes", 4112), kExitSlower);
  for (const char* list : {"/verify", "/verify_timed"}) {
    EXPECT_EQ(code_with((std::string(list) + "/0/rel_fro").c_str(), 2.1e-7), kExitSlower) << list;
  }
  EXPECT_EQ(code_with("/verify/0/rel_fro", 2.01e-7), kExitGood);
  EXPECT_EQ(code_with("/verify/0/rel_fro", "nan"), kExitSlower);
  const double peak = compiled()["memory"]["peak_bytes"].get<double>();
  EXPECT_EQ(code_with("/memory/peak_bytes", peak + 1.0), kExitSlower);
  const double read = compiled()["traffic"]["requested_read_bytes"].get<double>();
  EXPECT_EQ(code_with("/traffic/requested_read_bytes", 1.02 * read), kExitSlower);
  EXPECT_EQ(code_with("/traffic/requested_read_bytes", 1.005 * read), kExitGood);
  EXPECT_EQ(code_with("/traffic/l2/read_bytes", 1.02e6), kExitSlower);
}

// Returns the exit code where the sides ran these beside `forward`; null: nobody saw it.
int code_beyond(const RecordJson& before, const RecordJson& after,
                const CompareOptions& options = {}) {
  const auto ran = [](const RecordJson& others) {
    RecordJson record = compiled();
    record["evidence"] = {{"executed", nullptr}};
    if (others.is_null()) return record;
    RecordJson executed = others;
    executed.push_back({{"symbol", "forward"}, {"launches", 1}});
    record["evidence"]["executed"] = executed;
    return record;
  };
  return code_of({ran(before)}, {ran(after)}, options);
}

TEST(Compare, LaunchesBeyondTheOperationAreJudgedWhereBothWereSeen) {
  const RecordJson none = RecordJson::array();
  const RecordJson fill = RecordJson::array({{{"symbol", "Memset (Device)"}, {"launches", 1}}});
  const RecordJson fills = RecordJson::array({{{"symbol", "Memset (Device)"}, {"launches", 2}}});
  const RecordJson copy = RecordJson::array({{{"symbol", "Memcpy DtoD (D)"}, {"launches", 1}}});
  EXPECT_EQ(code_beyond(none, none), kExitGood);
  EXPECT_EQ(code_beyond(none, fill), kExitSlower);
  EXPECT_EQ(code_beyond(fill, fill), kExitGood);
  EXPECT_EQ(code_beyond(fill, fills), kExitSlower);
  EXPECT_EQ(code_beyond(fills, fill), kExitGood);
  EXPECT_EQ(code_beyond(fill, copy), kExitSlower) << "another one";
  EXPECT_EQ(code_beyond(none, fill, {.fail_on = {Judged::time}}), kExitGood);
  EXPECT_EQ(code_beyond(none, fill, {.fail_on = {Judged::kernels}}), kExitSlower);
  EXPECT_EQ(code_beyond(nullptr, fill), kExitGood) << "nobody knows whether it is new";
  EXPECT_EQ(code_beyond(fill, nullptr), kExitGood);
}

// A value that nobody can compare any more is not called the same.
TEST(Compare, WhatIsGoneIsAmbiguous) {
  for (const char* path : {"/verify", "/verify_timed", "/memory", "/traffic", "/compile"}) {
    EXPECT_EQ(code_with(path, nullptr), kExitAmbiguous) << path;
    EXPECT_EQ(code_with(path, nullptr, {.fail_on = {Judged::time}}), kExitGood) << path;
  }
  EXPECT_EQ(code_with("/traffic/valid", false), kExitAmbiguous);
  EXPECT_EQ(code_with("/verify/0/rel_fro", nullptr), kExitAmbiguous);
  EXPECT_EQ(code_with("/compile/0/entries/0/registers", nullptr), kExitAmbiguous);
  EXPECT_EQ(code_with("/compile/0/entries/0/name", "attend"), kExitAmbiguous);
}

TEST(Compare, ANewKernelMustNotSpill) {
  const RecordJson base = compiled();
  RecordJson now = base;
  now["compile"][1]["entries"].push_back(entry("combine", 64));
  EXPECT_EQ(code_of({base}, {now}), kExitGood);
  now["compile"][1]["entries"][1]["spill_load_bytes"] = 8;
  EXPECT_EQ(code_of({base}, {now}), kExitSlower);
}

TEST(Compare, StatusesHaveCodesOfTheirOwn) {
  EXPECT_EQ(code_with("/status", "failed"), kExitVerificationFailed);
  EXPECT_EQ(code_with("/verify/0/pass", false), kExitVerificationFailed);
  EXPECT_EQ(code_with("/verify_timed/0/pass", false), kExitVerificationFailed);
  for (const char* status : {"invalid", "unsupported", "out_of_memory", "skipped"}) {
    EXPECT_EQ(code_with("/status", status), kExitEnvironment) << status;
  }
  EXPECT_EQ(code_with("/time", nullptr), kExitEnvironment) << "it was timed";
  const RecordJson good = timed(128, 1e-3);
  RecordJson never = timed(64, 1e-3);
  never["status"] = "unsupported";
  EXPECT_EQ(code_of({never}, {never}), kExitEnvironment) << "nothing is compared";
  EXPECT_EQ(code_of({good, never}, {good, never}), kExitGood);
  EXPECT_EQ(code_of({good, never}, {good, timed(64, 1e-3)}), kExitGood) << "it can run now";
  never["status"] = "invalid";
  EXPECT_EQ(code_of({good, never}, {good, never}), kExitEnvironment);
}

TEST(Compare, WhatHasNoPartnerIsNeverDropped) {
  const RecordJson a = timed(64, 1e-3), b = timed(128, 1e-3);
  const Comparison missing = compare({a, b}, {a}, {});
  EXPECT_EQ(missing.pairing.missing.size(), 1u);
  EXPECT_EQ(exit_code(missing, {}), kExitAmbiguous);
  const Comparison extra = compare({a}, {a, b}, {});
  EXPECT_EQ(extra.pairing.extra.size(), 1u);
  EXPECT_EQ(exit_code(extra, {}), kExitGood);
  const Comparison twice = compare({a, b}, {a, b, b}, {});
  EXPECT_EQ(twice.pairing.duplicates.size(), 1u);
  EXPECT_TRUE(twice.pairing.missing.empty());
  EXPECT_EQ(exit_code(twice, {}), kExitAmbiguous);
  EXPECT_EQ(code_of({a}, {b}), kExitEnvironment);
  RecordJson skipped = b;  // and then run, by --resume
  skipped["status"] = "skipped";
  EXPECT_EQ(code_of({a, b}, {a, skipped, b}), kExitGood);
  RecordJson bad = b;
  bad["status"] = "invalid";
  EXPECT_EQ(code_of({a}, {a, bad}), kExitEnvironment);
  bad["status"] = "failed";
  EXPECT_EQ(code_of({a}, {a, bad}), kExitVerificationFailed);
  EXPECT_EQ(code_of({a, b}, {a, b, bad}), kExitVerificationFailed);
}

// Points pair only where both kernels chose: a config that was asked for is a point of its own.
TEST(Compare, AKernelsOwnChoiceOfConfigMayChange) {
  RecordJson base = compiled(), now = base;
  base["config"] = {{"block_m", 128}};
  now["config"] = {{"block_m", 64}};
  now["compile"][0]["entries"][0]["registers"] = 255;  // of another tile
  base["config_asked"] = now["config_asked"] = {{"block_m", 0}};
  const Comparison comparison = compare({base}, {now}, {});
  ASSERT_EQ(comparison.points.size(), 1u);
  EXPECT_EQ(comparison.points[0].config, "block_m 128 -> 64");
  EXPECT_EQ(exit_code(comparison, {}), kExitGood);
  RecordJson asked = base;  // beside it, a tile that was asked for
  asked["config"] = {{"block_m", 32}};
  asked["config_asked"] = nullptr;
  RecordJson another = asked;
  another["config"] = {{"block_m", 48}};
  EXPECT_EQ(compare({base, asked}, {now, another}, {}).points.size(), 1u);
  base.erase("config_asked");  // an older record
  EXPECT_EQ(compare({base}, {now}, {}).points.size(), 1u);
  now.erase("config_asked");
  EXPECT_EQ(compare({base}, {now}, {}).pairing.missing.size(), 1u);
  base["config_asked"] = now["config_asked"] = nullptr;  // as asked for
  EXPECT_EQ(compare({base}, {now}, {}).pairing.missing.size(), 1u);
}

TEST(Compare, RegimesAreTwoPoints) {
  RecordJson settled = timed(64, 1e-3);
  settled["protocol"]["regime"] = "settled";
  const Records both = {timed(64, 1e-3), settled};
  EXPECT_EQ(compare(both, both, {}).points.size(), 2u);
}

TEST(Compare, OtherDevicesAreRefusedOrAdvisory) {
  const RecordJson base = timed(64, 1e-3);
  for (const char* path :
       {"/device/name", "/protocol/min_rounds", "/device/threads", "/build/flags"}) {
    RecordJson now = base;
    now[RecordJson::json_pointer(path)] = 77;
    EXPECT_THROW(compare({base}, {now}, {}), UsageError) << path;
    const CompareOptions across = {.across = true};
    const Comparison comparison = compare({base}, {now}, across);
    EXPECT_EQ(comparison.differences.size(), 1u);
    EXPECT_EQ(exit_code(comparison, across), kExitAmbiguous);
  }
  RecordJson on_gpu = base, elsewhere = base;
  on_gpu["backend"] = elsewhere["backend"] = "cuda";
  elsewhere["device"]["threads"] = 77;  // these are its host's
  EXPECT_EQ(code_of({on_gpu}, {elsewhere}), kExitGood);
  RecordJson other = base;
  other["build"]["compiler"] = "another";
  EXPECT_EQ(compare({base}, {other}, {}).notes.size(), 1u);
}

TEST(CompareReport, SaysWhatWasFound) {
  const Records base = {timed(64, 1e-3), timed(128, 2e-3), timed(256, 2e-3)};
  const Records now = {timed(64, 1e-3), timed(128, 2.2e-3)};
  const Comparison comparison = compare(base, now, {});
  const std::string text = render_comparison(comparison, {}, TableFormat::table);
  for (const char* part : {"+10.00 %", "slower", "2 points on both sides, 1 same, 1 slower",
                           "Missing, only the base has them:\n  point of 256/naive", ": ok\n",
                           "Verdict: worse (exit code 4)."}) {
    EXPECT_PRED2(contains, text, part);
  }
  const RecordJson json = RecordJson::parse(render_comparison(comparison, {}, TableFormat::json));
  EXPECT_EQ(json["exit_code"], 4);
  EXPECT_EQ(json["points"][0]["time"]["verdict"], "slower");
  EXPECT_EQ(json["missing"].size(), 1u);
  const std::string csv = render_comparison(comparison, {}, TableFormat::csv);
  EXPECT_PRED2(contains, csv, ",slower,,0.002");
  EXPECT_PRED2(contains, csv, ",missing,ok,");
  const std::string markdown = render_comparison(comparison, {}, TableFormat::markdown);
  EXPECT_PRED2(contains, markdown, "| slower |");
  EXPECT_PRED2(contains, markdown, "- `point of 256/");
}

TEST(CompareReport, WhatFailsIsNamed) {
  const Records base = {timed(64, 1e-3)};
  Records now = base;
  now[0]["verify_timed"][0]["pass"] = false;
  EXPECT_PRED2(contains, render_comparison(compare(base, now, {}), {}, TableFormat::table),
               "Wrong results on the new side:\n  point of 64/naive");
}

// A code of 0 says no more than what was asked.
TEST(CompareReport, AVerdictIsOfWhatWasAsked) {
  const CompareOptions options = {.fail_on = {Judged::errors, Judged::memory}};
  const Records base = {timed(64, 1e-3)}, now = {timed(64, 2e-3)};
  const Comparison comparison = compare(base, now, options);
  EXPECT_PRED2(contains, render_comparison(comparison, options, TableFormat::table),
               "Verdict: same or better in errors, memory (exit code 0).");
}

}  // namespace
}  // namespace attnlab
