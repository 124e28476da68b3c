#include "harness/plan/sweep_cut.h"

#include <gtest/gtest.h>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Json cut(const char* sweep, const char* cut_text) {
  const SweepCut cut = read_cut(Json::parse(cut_text), "cut", builtin_registry());
  return cut_sweep(Json::parse(sweep), cut, "cut", builtin_registry());
}

TEST(SweepCut, KeepsValuesInAnyNotation) {
  const Json sweep = cut(R"({"axes": [{"seqlen": "1k:4k:x2", "batch": 4}, {"seqlen": 8192},
                                      {"batch": 1}]})",
                         R"({"keep": {"seqlen": ["2k", 4096]}})");
  EXPECT_EQ(sweep["axes"], Json::parse(R"([{"seqlen": ["2048", "4096"], "batch": 4},
                                           {"batch": 1}])"));
}

TEST(SweepCut, ReplacesAxesOfEveryProduct) {
  const Json sweep = cut(R"({"axes": {"batch": 4, "dtype": "f16"}})",
                         R"({"replace": {"batch": 1, "dtype": "f32"}})");
  EXPECT_EQ(sweep["axes"], Json::parse(R"([{"batch": ["1"], "dtype": ["f32"]}])"));
}

TEST(SweepCut, DropsExclusionsThatSpeakOfNothing) {
  const char* const sweep = R"({"axes": {"seqlen": [128, 256]}, "exclude": [
      {"where": {"seqlen": 256, "kernel": "torch:eager"}, "reason": "r"},
      {"where": {"seqlen": [128, 256]}, "reason": "s"}]})";
  const Json one = cut(sweep, R"({"keep": {"seqlen": 128}})");
  ASSERT_EQ(one["exclude"].size(), 1u);
  EXPECT_EQ(one["exclude"][0]["where"], Json::parse(R"({"seqlen": ["128"]})"));
  const Json none = cut(sweep, R"({"replace": {"seqlen": 64}})");
  EXPECT_FALSE(none.contains("exclude"));
}

TEST(SweepCut, ChangesProtocolAndPeers) {
  const char* const sweep =
      R"({"axes": {"batch": 1}, "peers": ["torch:eager"], "protocol": {"min_rounds": 9}})";
  const Json changed = cut(sweep, R"({"protocol": {"max_rounds": 3, "min_rounds": 3},
                                     "peers": ["torch:flash"]})");
  EXPECT_EQ(changed["protocol"], Json::parse(R"({"min_rounds": 3, "max_rounds": 3})"));
  EXPECT_EQ(changed["peers"], Json::parse(R"(["torch:flash"])"));
  EXPECT_FALSE(cut(sweep, R"({"peers": []})").contains("peers"));
}

TEST(SweepCut, SaysWhatItDoes) {
  const SweepCut all = read_cut(Json::parse(R"({"replace": {"batch": 1}, "keep": {"seqlen": [1, 2]},
      "protocol": {"max_rounds": 3}, "peers": []})"),
                                "cut", builtin_registry());
  EXPECT_EQ(describe(all), "batch 1; seqlen of 1, 2; max_rounds 3; peers none");
}

TEST(SweepCut, TwoCutsAreSaidOnce) {
  const auto read = [](const char* text) {
    return read_cut(Json::parse(text), "cut", builtin_registry());
  };
  const SweepCut cpu = read(R"({"replace": {"batch": 1, "heads": [1, 2]}, "peers": [],
      "keep": {"seqlen": "128:2k:x2", "seqlen_q": [64]}, "protocol": {"max_rounds": 5}})");
  const SweepCut quick = read(R"({"keep": {"seqlen": [128, 256, 4096], "heads": 2, "seqlen_q": [32],
      "pass": "fwd"}, "protocol": {"max_rounds": 3}})");
  EXPECT_EQ(describe(joined(cpu, quick, builtin_registry())),
            "batch 1; heads 2; seqlen of 128, 256; pass of fwd; max_rounds 3; peers none");
  const SweepCut other =
      read(R"({"replace": {"seqlen": 64, "batch": 2}, "peers": ["torch:eager"]})");
  EXPECT_EQ(describe(joined(cpu, other, builtin_registry())),
            "batch 2; heads 1, 2; seqlen 64; seqlen_q of 64; max_rounds 5; peers torch:eager");
}

}  // namespace
}  // namespace attnlab
