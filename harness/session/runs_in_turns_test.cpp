#include "harness/session/runs_in_turns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <stdexcept>

#include "harness/run/context.h"

namespace attnlab {
namespace {

// Makes a run that greets, and asks for steps like "a:sample", one after the other, a round each.
TurnRun script(const std::string& name, const std::vector<std::string>& steps,
               const std::string& end = "") {
  std::string text = fmt::format("echo '{}'\n", turn_greeting());
  int round = 0;
  for (const std::string& step : steps) {
    const std::size_t colon = step.find(':');
    text += fmt::format(
        "echo '{{\"turns\": 1, \"case\": \"{}\", \"step\": \"{}\", \"round\": {}}}'; "
        "read answer || exit 7\n",
        step.substr(0, colon), step.substr(colon + 1), step.ends_with("sample") ? ++round : 0);
  }
  return {.name = name, .command = {"/bin/sh", "-c", text + end}};
}

// Logs what was let go, in its order: "base a:sample".
class TakeTurns : public testing::Test {
 protected:
  std::vector<RunEnding> run(const std::vector<TurnRun>& runs) {
    options_.before = [this](const TurnRun& side, const TurnRequest& request) {
      const char* const step = request.step == TurnStep::warm_up  ? "warm up"
                               : request.step == TurnStep::sample ? "sample"
                                                                  : "leave";
      log_.push_back(fmt::format("{} {}:{}", side.name, request.case_id, step));
    };
    return take_turns(runs, options_);
  }

  TurnOptions options_ = {.case_ids = {"a", "b", "c"}, .timeout_s = 10.0};
  std::vector<std::string> log_;
};

TEST_F(TakeTurns, BothTakeAStepBeforeOneTakesTheNext) {
  std::vector<std::string> steps(40, "a:sample");
  steps.insert(steps.begin(), "a:warm up");
  steps.emplace_back("a:leave");
  const auto endings = run({script("base", steps), script("head", steps)});
  ASSERT_EQ(log_.size(), 2 * steps.size());
  int base_first = 0;  // of samples
  for (std::size_t i = 0; i < log_.size(); i += 2) {
    EXPECT_EQ(log_[i].substr(4), log_[i + 1].substr(4)) << i;
    EXPECT_NE(log_[i], log_[i + 1]) << i;
    base_first += log_[i] == "base a:sample" ? 1 : 0;
  }
  EXPECT_EQ(base_first, 20);
  for (const RunEnding& ending : endings) {
    EXPECT_TRUE(ending.began);
    EXPECT_EQ(ending.how, "exit status 0");
  }
}

TEST_F(TakeTurns, WhoBeginsIsDrawn) {
  const std::vector<std::string> steps(40, "a:sample");
  const auto firsts = [&](std::uint64_t seed) {
    log_.clear();
    options_.seed = seed;
    run({script("base", steps), script("head", steps)});
    std::string text;
    for (std::size_t i = 0; i < log_.size(); i += 2) text += log_[i][0];
    return text;
  };
  const std::string one = firsts(1);
  EXPECT_EQ(one, firsts(1));
  EXPECT_NE(one, firsts(2));
  EXPECT_NE(one.find("bb"), std::string::npos) << one;
  EXPECT_NE(one.find("hh"), std::string::npos) << one;
}

TEST_F(TakeTurns, EachOfThreeComesFirstAsOftenAsLast) {
  const std::vector<std::string> steps(40, "a:sample");
  run({script("base", steps), script("head", steps), script("slow", steps)});
  ASSERT_EQ(log_.size(), 120u);
  std::map<std::string, std::array<int, 3>> places;  // of each: how often it was there
  std::set<std::string> orders;
  for (std::size_t i = 0; i < log_.size(); i += 3) {
    std::string order;
    for (std::size_t place = 0; place < 3; ++place) {
      ++places[log_[i + place]].at(place);
      order += log_[i + place][0];
    }
    orders.insert(order);
  }
  ASSERT_EQ(places.size(), 3u);
  for (const auto& [name, times] : places) EXPECT_EQ(times[0], times[2]) << name;
  EXPECT_EQ(orders.size(), 6u);
}

TEST_F(TakeTurns, OfThreeTheOnesThatAreBehindGoFirst) {
  run({script("base", {"b:sample"}), script("head", {"a:sample", "b:sample"}),
       script("slow", {"a:sample", "c:sample"})});
  ASSERT_EQ(log_.size(), 5u);
  std::ranges::sort(log_.begin(), log_.begin() + 2);
  EXPECT_EQ(log_[0], "head a:sample");
  EXPECT_EQ(log_[1], "slow a:sample");
  EXPECT_EQ(log_[4], "slow c:sample");
}

// The process that prepares a case first also allocates first, so times may depend on it.
TEST_F(TakeTurns, WhoPreparesACaseIsDrawnForEachCase) {
  options_.case_ids.clear();
  std::vector<std::string> steps;
  for (int i = 0; i < 20; ++i) {
    options_.case_ids.push_back(fmt::format("case {}", i));
    steps.push_back(options_.case_ids.back() + ":warm up");
    steps.push_back(options_.case_ids.back() + ":leave");
  }
  run({script("base", steps), script("head", steps)});
  ASSERT_EQ(log_.size(), 80u);
  int base_first = 0;
  for (std::size_t i = 0; i < log_.size(); i += 4) {
    EXPECT_EQ(log_[i][0], log_[i + 2][0]) << "both steps of a case by the same";
    base_first += log_[i].starts_with("base") ? 1 : 0;
  }
  EXPECT_GT(base_first, 3);
  EXPECT_LT(base_first, 17);
  // The process that leaves the timer's check first, which is of no case, prepares the first case.
  std::string firsts;
  for (options_.seed = 0; options_.seed < 20; ++options_.seed) {
    log_.clear();
    run({script("base", {":check timer", ":leave"}), script("head", {":check timer", ":leave"})});
    EXPECT_EQ(log_.at(0)[0], log_.at(2)[0]);
    firsts += log_[0][0];
  }
  EXPECT_NE(firsts.find('b'), std::string::npos);
  EXPECT_NE(firsts.find('h'), std::string::npos);
}

TEST_F(TakeTurns, WhoIsBehindGoesFirst) {
  run({script("base", {"a:warm up", "b:sample", "b:leave"}),
       script("head", {"b:sample", "b:leave", "c:leave"})});
  ASSERT_EQ(log_.size(), 6u);
  EXPECT_EQ(log_[0], "base a:warm up");
  std::ranges::sort(log_.begin() + 1, log_.begin() + 3);
  EXPECT_EQ(log_[1], "base b:sample");
  EXPECT_EQ(log_[2], "head b:sample");
  EXPECT_EQ(log_[5], "head c:leave");
}

// The head has a kernel more: two samples a round.
TEST_F(TakeTurns, NobodyBeginsARoundBeforeTheOtherHasDoneTheLast) {
  const auto asks = [](std::initializer_list<int> rounds) {
    std::string text = fmt::format("echo '{}'\n", turn_greeting());
    for (const int round : rounds) {
      text += fmt::format("echo '{}'; read answer\n",
                          to_line({.case_id = "a", .step = TurnStep::sample, .round = round}));
    }
    return std::vector<std::string>{"/bin/sh", "-c", text};
  };
  run({{.name = "base", .command = asks({1, 2, 3})},
       {.name = "head", .command = asks({1, 1, 2, 2, 3, 3})}});
  ASSERT_EQ(log_.size(), 9u);
  for (std::size_t i = 0; i < log_.size(); i += 3) {
    const auto round = std::span(log_).subspan(i, 3);
    EXPECT_EQ(std::ranges::count(round, "head a:sample"), 2) << i;
  }
}

TEST_F(TakeTurns, ACaseThatNobodyElseKnowsKeepsNobodyWaiting) {
  run({script("base", {"old:sample", "a:sample"}), script("head", {"a:sample"})});
  ASSERT_EQ(log_.size(), 3u);
  EXPECT_EQ(log_[0], "base old:sample");
}

TEST_F(TakeTurns, OneThatEndsLeavesTheOtherItsTurns) {
  const auto endings = run({script("base", {"a:sample"}, "echo broken >&2; exit 3"),
                            script("head", {"a:sample", "a:sample", "a:leave"})});
  EXPECT_EQ(log_.size(), 4u);
  EXPECT_EQ(endings[0].how, "exit status 3");
  EXPECT_EQ(endings[0].errors, "broken\n");
  EXPECT_EQ(endings[1].how, "exit status 0");
}

TEST_F(TakeTurns, OneThatDiesInItsTurnIsSeen) {
  const auto endings = run({script("head", {"a:sample"}, "kill -9 $$")});
  EXPECT_EQ(endings[0].how, "signal 9");
}

TEST_F(TakeTurns, OneThatNeverBeganSaysSo) {
  const auto endings = run({{.name = "base", .command = {"/bin/sh", "-c", "echo no >&2; exit 2"}},
                            script("head", {"a:sample"})});
  EXPECT_FALSE(endings[0].began);
  EXPECT_EQ(endings[0].how, "exit status 2");
  EXPECT_EQ(endings[0].errors, "no\n");
  EXPECT_TRUE(endings[1].began);
}

TEST_F(TakeTurns, OneThatHangsIsEnded) {
  options_.timeout_s = 1.0;
  const auto endings = run({script("head", {"a:sample"}, "exec sleep 60")});
  EXPECT_EQ(endings[0].how, "did nothing for 1 s and was ended");
}

TEST_F(TakeTurns, OtherWordsAreNoTurns) {
  EXPECT_THROW(run({{.name = "base", .command = {"/bin/sh", "-c", "echo seqlen; sleep 9"}}}),
               std::runtime_error);
  const TurnRun twice = {
      .name = "base",
      .command = {"/bin/sh", "-c",
                  fmt::format("echo '{0}'; echo '{0}'; sleep 9", turn_greeting())}};
  EXPECT_THROW(run({twice}), std::runtime_error);
  EXPECT_THROW(run({{.name = "base", .command = {"/nowhere/attnlab", "run"}}}), std::runtime_error);
}

TEST_F(TakeTurns, CtrlCEndsBoth) {
  options_.interrupted = [] { return true; };
  EXPECT_THROW(run({script("base", {"a:sample"}), script("head", {"a:sample"})}), Interrupted);
}

}  // namespace
}  // namespace attnlab
