#include "harness/plan/axes.h"

#include <gtest/gtest.h>

#include "harness/testing/sweep_axes.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

std::vector<std::string> values_of(const std::string& axis, const std::string& text) {
  Axes axes;
  const AxisGrammar& grammar = builtin_grammars().find(axis, "test");
  grammar.set(axes, text, "test");
  return grammar.values(axes);
}

std::string error_of(const std::string& axis, const std::string& text) {
  return usage_error([&] { values_of(axis, text); });
}

TEST(Axes, IntegersAndRanges) {
  EXPECT_EQ(values_of("seqlen", "64, 4k"), (Texts{"64", "4096"}));
  EXPECT_EQ(values_of("seqlen", "512:8192:x2"), (Texts{"512", "1024", "2048", "4096", "8192"}));
  EXPECT_EQ(values_of("seqlen", "1k:5000:x3"), (Texts{"1024", "3072"}));
  EXPECT_EQ(values_of("seqlen", "10:31:+10,5"), (Texts{"10", "20", "30", "5"}));
  EXPECT_EQ(values_of("seqlen", "7:7:x2"), (Texts{"7"}));
  EXPECT_EQ(values_of("seqlen_k", "2147483648"), (Texts{"2147483648"}));
  EXPECT_EQ(values_of("seed", "0,18446744073709551615"), (Texts{"0", "18446744073709551615"}));
}

TEST(Axes, RefusesBadIntegers) {
  for (const char* text : {"",
                           ",",
                           "64,",
                           "0",
                           "-1",
                           "6.5",
                           "1e3",
                           "2147483649",
                           "nan",
                           "64 65",
                           "1:2",
                           "1:2:3",
                           "1:2:x",
                           "1:8:x1",
                           "1:8:+0",
                           "8:1:x2",
                           "1:2:3:x2",
                           "k",
                           "9999999999999999999999",
                           "9007199254740993k",
                           "2097153k"}) {
    EXPECT_NE(error_of("seqlen", text), "") << text;
  }
  EXPECT_PRED2(contains, error_of("seqlen", "64,0"), "test: 0 is outside [1, 2147483648]");
  EXPECT_PRED2(contains, error_of("seqlen", "1:100000:+1"), "more than 4096");
  EXPECT_PRED2(contains, error_of("seqlen", "1:4000:+1,4001:8000:+1"), "more than 4096");
  EXPECT_NE(error_of("seed", "0:4:x2"), "");
  EXPECT_PRED2(contains, error_of("seed", "-1"), "-1 is outside [0, ");
  EXPECT_PRED2(contains, error_of("seqlen", "1:8:x1"), "the factor of '1:8:x1': 1 is outside [2,");
  EXPECT_PRED2(contains, error_of("seqlen", "1:8:+0"), "the step of '1:8:+0': 0 is outside [1,");
}

TEST(Axes, RefusesRepeatedValues) {
  EXPECT_PRED2(contains, error_of("seqlen", "512:2048:x2,1k"), "1024 is given twice");
  EXPECT_PRED2(contains, error_of("mask", "causal+window:3:0,window:3:0+causal"), "given twice");
  EXPECT_PRED2(contains, error_of("dropout", "0,-0.0"), "given twice");
}

TEST(Axes, NamesAreKnownAndSuggested) {
  EXPECT_EQ(values_of("pass", "fwd,bwd,fwdbwd"), (Texts{"fwd", "bwd", "fwdbwd"}));
  EXPECT_EQ(values_of("dtype", "f32,f16,bf16"), (Texts{"f32", "f16", "bf16"}));
  EXPECT_PRED2(contains, error_of("dtype", "fp32"), "did you mean 'f32'?");
  EXPECT_PRED2(contains, error_of("input_kind", "norml"), "did you mean 'normal'?");
  EXPECT_EQ(usage_error([] { builtin_grammars().find("seqlne", "f.json"); }),
            "f.json: unknown axis 'seqlne'; did you mean 'seqlen'?");
  EXPECT_PRED2(contains, usage_error([] { parse_backend("cdua", "--backend"); }), "'cuda'");
}

TEST(Axes, MasksKeepTheirColons) {
  EXPECT_EQ(values_of("mask", "none,causal,window:128:-1+padding:7,blocks:butterfly:64x32"),
            (Texts{"none", "causal", "window:128:-1+padding:7", "blocks:butterfly:64x32"}));
  EXPECT_PRED2(contains, error_of("mask", "none,windw:1:2"), "test: mask 'windw:1:2'");
}

TEST(Axes, DropoutLiesInItsInterval) {
  EXPECT_EQ(error_of("dropout", "1e400"), "test: 1e400 is outside [0, 1)");
  EXPECT_EQ(values_of("dropout", "0,0.1"), (Texts{"0", "0.1"}));
  for (const char* text : {"1", "-0.1", "nan", "inf", "0.1x", "."}) {
    EXPECT_NE(error_of("dropout", text), "") << text;
  }
}

TEST(Axes, ScalesArePositiveOrTheDefault) {
  EXPECT_EQ(values_of("softmax_scale", "0,0.05,1,1e3"), (Texts{"0", "0.05", "1", "1000"}));
  for (const char* text : {"-0.1", "nan", "inf", "1e400", "default", ""}) {
    EXPECT_NE(error_of("softmax_scale", text), "") << text;
  }
}

TEST(Axes, Blocks) {
  EXPECT_EQ(values_of("block", "64x64,0x32"), (Texts{"64x64", "0x32"}));
  for (const char* text : {"64", "64x", "x64", "-1x64", "64x64x64", "64*64"}) {
    EXPECT_NE(error_of("block", text), "") << text;
  }
}

TEST(Axes, ConfigAxes) {
  EXPECT_EQ(values_of("sram", "1k,100"), (Texts{"1024", "100"}));
  EXPECT_EQ(values_of("stages", "2:4:+1"), (Texts{"2", "3", "4"}));
  EXPECT_EQ(values_of("consumers", "2,3"), (Texts{"2", "3"}));
  EXPECT_EQ(values_of("producer", "0,1"), (Texts{"0", "1"}));
  EXPECT_EQ(values_of("overlap", "0,1"), (Texts{"0", "1"}));
  EXPECT_EQ(values_of("ping_pong", "0,1"), (Texts{"0", "1"}));
  EXPECT_EQ(values_of("deterministic", "0,1"), (Texts{"0", "1"}));
  EXPECT_EQ(values_of("schedule_seed", "0,12"), (Texts{"0", "12"}));
  EXPECT_EQ(values_of("tf32", "0,1"), (Texts{"0", "1"}));
  EXPECT_PRED2(contains, error_of("tf32", "2"), "test: 2 is outside [0, 1]");
  EXPECT_PRED2(contains, error_of("deterministic", "2"), "test: 2 is outside [0, 1]");
  EXPECT_EQ(values_of("stages", "0,2"), (Texts{"0", "2"})) << "0: the kernel's own choice";
  EXPECT_EQ(values_of("warps", "0,4:8:x2"), (Texts{"0", "4", "8"}));
  EXPECT_EQ(values_of("producer", "-1,0:1:+1"), (Texts{"-1", "0", "1"}));
  EXPECT_PRED2(contains, error_of("sram", "1048577"), "1048577 is outside [0, 1048576]");
  EXPECT_PRED2(contains, error_of("warps", "-1"), "-1 is outside [0, 16]");
  EXPECT_PRED2(contains, error_of("producer", "-1:1:x2"), "'-1:1:x2' never reaches its end");
}

constexpr ConfigAxis kOfCpu[] = {{"block_n", "keys", 64, 1, 256},
                                 {"stages", "stages of a ring", 2, 2, 8},
                                 {"odd", "anything", 7, -3, 1000}};
constexpr std::int64_t kTried[] = {1, 3};
constexpr ConfigAxis kOfGpu[] = {{"turns", "1: in turns", -1, -1, 1},
                                 {"stages", "tiles on chip", 0, 0, 4, kTried}};

Registry two_kernels() {
  static constexpr Implementation kCpu = {.api_version = kApiVersion,
                                          .name = "one",
                                          .backend = Backend::cpu,
                                          .axes = kOfCpu,
                                          .num_axes = 3};
  static constexpr Implementation kGpu = {.api_version = kApiVersion,
                                          .name = "two",
                                          .backend = Backend::cuda,
                                          .axes = kOfGpu,
                                          .num_axes = 2};
  static constexpr Implementation kBoth = {.api_version = kApiVersion,
                                           .name = "two",
                                           .backend = Backend::cpu,
                                           .axes = kOfGpu,
                                           .num_axes = 1};
  static constexpr const Implementation* kAll[] = {&kCpu, &kBoth, &kGpu};
  return Registry(kAll);
}

TEST(Axes, OfConfigsAreThoseThatKernelsDeclare) {
  const std::vector<SharedAxis> axes = shared_axes(two_kernels());
  ASSERT_EQ(axes.size(), 3u) << "block_n is set by `block`";
  EXPECT_EQ(axes[0].help.name, "turns");
  EXPECT_EQ(axes[0].help.values, "0,1");
  EXPECT_EQ(axes[0].help.summary, "1: in turns (two)");
  EXPECT_EQ(axes[1].help.name, "stages");
  EXPECT_EQ(axes[1].help.values, "1,3") << "what tuning tries";
  EXPECT_EQ(axes[1].help.summary, "tiles on chip (one on a CPU, two on a GPU)");
  EXPECT_EQ(axes[1].minimum, 0);
  EXPECT_EQ(axes[1].maximum, 8);
  EXPECT_EQ(axes[2].help.values, "7,1000");
  EXPECT_EQ(kernel_names(two_kernels()), (Texts{"one", "two"}));
}

TEST(Axes, WhatNoKernelDeclaresIsUnknown) {
  const AxisGrammars grammars(two_kernels());
  EXPECT_PRED2(contains, usage_error([&] { grammars.find("warps", "f.json"); }),
               "unknown axis 'warps'");
  Sweep sweep;
  grammars.set(sweep, "odd", "-3:4:+7,9", "odd");
  EXPECT_EQ(sweep.axes.front().config.at("odd"), (std::vector<std::int64_t>{-3, 4, 9}));
  EXPECT_EQ(usage_error([&] { grammars.set(sweep, "odd", "1001", "--odd"); }),
            "--odd: 1001 is outside [-3, 1000]");
}

TEST(Axes, AKernelCannotTakeTheNameOfAnAxisOfTheProblem) {
  static constexpr ConfigAxis kSeed[] = {{"seed", "of its own", 0, 0, 1}};
  static constexpr Implementation kKernel = {.api_version = kApiVersion,
                                             .name = "greedy",
                                             .backend = Backend::cpu,
                                             .axes = kSeed,
                                             .num_axes = 1};
  Registry registry;
  registry.add(kKernel);
  EXPECT_THROW(AxisGrammars{registry}, std::invalid_argument);
}

TEST(Axes, Lengths) {
  EXPECT_EQ(values_of("lengths", "drawn, 300+512+0,1kx5+7x7"),
            (Texts{"drawn", "300+512+0", "1024x5+7"}));
  for (const char* text : {"300+", "+", "1x2x3", "-1", "1.5", "a", "drawn+1", "1:2:+1", "x3"}) {
    EXPECT_PRED2(contains, error_of("lengths", text), "write drawn, or the keys of each entry")
        << text;
  }
  EXPECT_PRED2(contains, error_of("lengths", "5x5,5"), "5 is given twice");
}

TEST(Axes, HelpExamplesAreAccepted) {
  for (const AxisGrammar& row : builtin_grammars().rows()) {
    EXPECT_FALSE(values_of(row.help.name, row.help.values).empty()) << row.help.name;
    EXPECT_GT(row.help.summary.size(), 5u) << row.help.name;
  }
}

}  // namespace
}  // namespace attnlab
