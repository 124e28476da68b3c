#include "harness/session/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/plan/axes.h"
#include "harness/plan/expand.h"
#include "harness/plan/shard.h"
#include "harness/record/record_json.h"
#include "harness/run/context.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/sweep_axes.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Sets up two problems with three points each: naive, and v2 with two tiles.
class Resume : public testing::Test {
 protected:
  Resume() {
    sweep_.source = "a.json";
    set_axis(sweep_, "seqlen", "32,64", "seqlen");
    set_axis(sweep_, "mask", "padding", "mask");
    set_axis(sweep_, "block", "32x32,64x64", "block");
    device_.isa = "avx2";
    device_.threads = 2;
    context_ = {.device = &device_, .sweep_name = "s", .command_line = "attnlab run 'a b.json'"};
    expand_again();
    for (const Case& work : cases_) {
      for (const Competitor& competitor : work.competitors) {
        Record record = planned_record(work, competitor, context_);
        record.time = Timing{.samples_s = {1.0}};
        records_.push_back(Json::parse(to_json(record).dump()));
      }
    }
  }

  void expand_again() { cases_ = expand(sweep_, fake::registry(), device_); }

  Remainder remainder() const {
    return find_remainder(cases_, context_, records_, "r.jsonl", wanted_);
  }

  std::string error() const {
    return usage_error([&] { remainder(); });
  }

  // Returns the points that are left, as "32 v2 64x64".
  Texts left() const {
    Texts points;
    for (const Case& work : remainder().cases) {
      for (const Competitor& competitor : work.competitors) {
        points.push_back(std::to_string(work.problem.seqlen_q) + " " + competitor.kernel);
        if (competitor.config.contains("block_m")) {
          points.back() += " " + std::to_string(competitor.config.get("block_m"));
        }
      }
    }
    return points;
  }

  Sweep sweep_;
  Device device_ = fake::cpu();
  RunContext context_;
  std::vector<Case> cases_;
  std::vector<Json> records_;
  Rest wanted_ = Rest::missing;
};

TEST_F(Resume, AnEmptyFileHasNothing) {
  records_.clear();
  const Remainder rest = remainder();
  EXPECT_EQ(rest.finished, 0u);
  EXPECT_EQ(rest.notes, Texts{});
  EXPECT_EQ(left(),
            (Texts{"32 naive", "32 v2 32", "32 v2 64", "64 naive", "64 v2 32", "64 v2 64"}));
}

// The file holds one record of shard 1/2 when it is resumed.
class ResumedShard : public Resume {
 protected:
  ResumedShard() {
    take("1/2");
    Record record = planned_record(cases_[0], cases_[0].competitors[0], context_);
    records_ = {Json::parse(to_json(record).dump())};
  }
  void take(const std::string& shard) {
    expand_again();
    ShardedCases sharded = take_shard(cases_, parse_shard(shard, "--shard"), context_.protocol);
    cases_ = std::move(sharded.cases);
    context_.shard = sharded.part;
  }
};

TEST_F(ResumedShard, GoesOnWithTheRest) {
  EXPECT_EQ(remainder().finished, 1u);
  EXPECT_EQ(left().size(), 2u);
}

TEST_F(ResumedShard, RefusesRecordsOfAnother) {
  take("2/2");
  EXPECT_PRED2(contains, error(),
               "r.jsonl: its records are of shard 1/2, and --shard says 2/2: name the file of");
  records_[0]["shard"] = nullptr;
  EXPECT_PRED2(contains, error(), "its records are of no shard, and --shard says 2/2");
}

TEST_F(ResumedShard, RefusesRecordsOfAnotherCut) {
  records_[0]["shard"]["cut"] = "0123456789abcdef";
  EXPECT_PRED2(contains, error(),
               "r.jsonl: the sweep was cut otherwise when its records were made");
  EXPECT_PRED2(contains, error(), "attnlab run 'a b.json'");
}

TEST_F(ResumedShard, IsPartOfWhatTheWholeSweepGoesOnWith) {
  expand_again();
  context_.shard.reset();
  EXPECT_EQ(remainder().finished, 1u);
  EXPECT_EQ(left().size(), 5u);
}

// Layouts of one problem take turns: what is left of them runs without what was timed.
TEST_F(Resume, OneOfTwoLayoutsIsPartOfACase) {
  set_axis(sweep_, "seqlen", "32", "seqlen");
  set_axis(sweep_, "layout", "bshd,bhsd", "layout");
  expand_again();
  ASSERT_EQ(cases_.size(), 2u);
  EXPECT_EQ(left(), (Texts{"32 naive", "32 v2 32", "32 v2 64"}));
  const Texts notes = remainder().notes;
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return contains(note, "In 1 case some kernels were timed before");
  })) << fmt::format("{}", fmt::join(notes, " "));
}

// Kernels of a case take turns, so one whose clock did not settle brings back the others, too.
TEST_F(Resume, CasesThatDidNotSettleRunAgain) {
  records_[4]["time"]["telemetry"]["settled"] = false;
  EXPECT_EQ(left(), Texts{});
  wanted_ = Rest::missing_or_unsettled;
  EXPECT_EQ(left(), (Texts{"64 naive", "64 v2 32", "64 v2 64"}));
  EXPECT_EQ(remainder().finished, 3u);
  const Texts notes = remainder().notes;
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return contains(note,
                    "In 1 case the clock of a point did not settle: all that was timed in it runs");
  })) << fmt::format("{}", fmt::join(notes, " "));

  records_[3]["time"] = nullptr;  // it hung, and would hang again
  EXPECT_EQ(left(), (Texts{"64 v2 32", "64 v2 64"}));

  Json settled = records_[4];  // it was measured again
  settled["time"]["telemetry"]["settled"] = true;
  records_.push_back(settled);
  EXPECT_EQ(left(), Texts{});
  EXPECT_EQ(remainder().notes, Texts{});
}

TEST_F(Resume, ACompleteFileHasAll) {
  ASSERT_EQ(records_.size(), 6u);
  const Remainder rest = remainder();
  EXPECT_EQ(rest.finished, 6u);
  EXPECT_TRUE(rest.cases.empty());
  EXPECT_EQ(rest.notes, Texts{});
}

TEST_F(Resume, WhatHasNoRecordIsLeft) {
  records_.resize(3);
  EXPECT_EQ(left(), (Texts{"64 naive", "64 v2 32", "64 v2 64"}));
  EXPECT_EQ(remainder().finished, 3u);
  EXPECT_EQ(remainder().notes, Texts{});
  const Remainder rest = remainder();
  EXPECT_EQ(rest.cases.at(0).problem, cases_.at(1).problem);
}

TEST_F(Resume, AnyStatusIsARecord) {
  records_[0]["status"] = "failed";
  records_[1]["status"] = "invalid";
  records_[2]["status"] = "out_of_memory";
  EXPECT_EQ(left(), Texts{});
}

TEST_F(Resume, ASplitCaseIsSaid) {
  records_.resize(4);
  EXPECT_EQ(left(), (Texts{"64 v2 32", "64 v2 64"}));
  ASSERT_EQ(remainder().notes.size(), 1u);
  EXPECT_PRED2(starts_with, remainder().notes[0], "In 1 case some kernels were timed before");
  records_[3]["time"] = nullptr;  // it failed: it would have taken no turns
  EXPECT_EQ(remainder().notes, Texts{});
}

TEST_F(Resume, WhatCouldNotRunAndCanRunsNow) {
  records_[1]["status"] = "skipped";
  records_[5]["status"] = "unsupported";
  EXPECT_EQ(left(), (Texts{"32 v2 32", "64 v2 64"}));
  ASSERT_FALSE(remainder().notes.empty());
  EXPECT_PRED2(starts_with, remainder().notes.back(),
               "2 points recorded as skipped or unsupported");
  for (Case& work : cases_) {
    for (Competitor& competitor : work.competitors) competitor.unsupported = "still";
  }
  EXPECT_EQ(left(), Texts{});
}

TEST_F(Resume, TheLastRecordOfAPointCounts) {
  records_.push_back(records_[0]);
  EXPECT_EQ(remainder().finished, 6u);
  records_[0]["device"]["threads"] = 8;
  EXPECT_EQ(error(), "");
  records_[6]["device"]["threads"] = 8;
  EXPECT_NE(error(), "");
}

TEST_F(Resume, WhatChangesAMeasurementMustAgree) {
  const std::pair<const char*, const char*> cases[] = {
      {"/sweep", "sweep was 9 and is \"s\" now"},
      {"/problem/lengths/keys", "problem.lengths.keys was 9 and is "},
      {"/problem/blocks", "problem.blocks was 9 and is null now"},
      {"/problem/new", "problem.new was 9 and is null now"},
      {"/protocol/min_rounds", "protocol.min_rounds was 17 and is 9 now"},
      {"/protocol/verify_multiply_adds", "protocol.verify_multiply_adds was "},
      {"/protocol/verify_seconds", "protocol.verify_seconds was 9 and is null now"},
      {"/device/name", "device.name was 9 and is \"fake\" now"},
      {"/device/isa", "device.isa was 9 and is \"avx2\" now"},
      {"/device/threads", "device.threads was 9 and is 2 now"},
      {"/build/compiler", "build.compiler was 9 and is "},
      {"/build/flags", "build.flags was 9 and is "},
  };
  const std::vector<Json> good = records_;
  for (const auto& [path, message] : cases) {
    records_ = good;
    const bool is_rounds = std::string(path) == "/protocol/min_rounds";
    records_[4][Json::json_pointer(path)] = is_rounds ? 17 : 9;
    EXPECT_PRED2(starts_with, error(), std::string("r.jsonl: ") + message);
    EXPECT_PRED2(contains, error(), "with --out. It began as:\n  attnlab run 'a b.json'");
  }
}

TEST_F(Resume, WhatChangesNoMeasurementMayDiffer) {
  for (Json& record : records_) {
    record["device"]["memory_bytes"] = 1;
    record["device"]["cache_bytes"] = Json::array();
    record["command_line"] = "other";
    record["timestamp"] = "other";
    Json problem = Json::object();  // the same in another order
    for (auto item = record["problem"].rbegin(); item != record["problem"].rend(); ++item) {
      problem[item.key()] = *item;
    }
    record["problem"] = problem;
  }
  EXPECT_EQ(remainder().finished, 6u);
  EXPECT_EQ(remainder().notes, Texts{});
}

TEST_F(Resume, AnotherCommitIsSaid) {
  records_[0]["build"]["commit"] = "0123456789ab";
  EXPECT_EQ(remainder().notes, Texts{}) << "nothing is left to differ";
  records_.resize(3);
  ASSERT_EQ(remainder().notes.size(), 1u);
  EXPECT_PRED2(starts_with, remainder().notes[0], "1 point of it is of commit 0123456789ab, ");
}

TEST_F(Resume, PointsOfAnotherSweepAreCounted) {
  set_axis(sweep_, "seqlen", "64,128", "seqlen");
  expand_again();
  EXPECT_EQ(left(), (Texts{"128 naive", "128 v2 32", "128 v2 64"}));
  EXPECT_EQ(remainder().notes, Texts{"The file also has 3 points that are not in this sweep."});
  set_axis(sweep_, "seqlen", "128", "seqlen");
  expand_again();
  EXPECT_PRED2(starts_with, error(), "r.jsonl: none of its 6 points is in this sweep: ");
}

TEST_F(Resume, ARecordThatLacksAFieldIsAnError) {
  for (const char* field : {"id", "status", "time", "build", "seed"}) {
    const std::vector<Json> good = records_;
    records_[2].erase(field);
    EXPECT_PRED2(starts_with, error(), "r.jsonl: ") << field;
    records_ = good;
  }
}

}  // namespace
}  // namespace attnlab
