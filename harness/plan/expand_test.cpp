#include "harness/plan/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "harness/plan/axes.h"
#include "harness/plan/sweep_file.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/sweep_axes.h"
#include "harness/testing/test_support.h"
#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

Sweep sweep_of(const std::vector<std::pair<const char*, const char*>>& axes) {
  Sweep sweep;
  sweep.source = "a.json";
  for (const auto& [axis, text] : axes) set_axis(sweep, axis, text, axis);
  return sweep;
}

std::vector<Case> expanded(const Sweep& sweep) {
  return expand(sweep, fake::registry(), fake::cpu());
}

std::string error_of(const Sweep& sweep) {
  return usage_error([&] { expanded(sweep); });
}

std::vector<std::string> names(const Case& work) {
  std::vector<std::string> result;
  for (const Competitor& competitor : work.competitors) {
    result.push_back(competitor.kernel + " " + competitor.config.to_string());
  }
  return result;
}

TEST(Expand, FirstAxisChangesSlowest) {
  const auto cases =
      expanded(sweep_of({{"seqlen", "64,32"}, {"head_dim", "8,16"}, {"seed", "1,2"}}));
  ASSERT_EQ(cases.size(), 8u);
  std::vector<std::string> order;
  for (const Case& work : cases) {
    order.push_back(std::to_string(work.problem.head_dim) + " " +
                    std::to_string(work.problem.seqlen_q) + " " + std::to_string(work.seed));
    EXPECT_EQ(work.problem.seed, work.seed);
    EXPECT_EQ(work.problem.seqlen_q, work.problem.seqlen_k);
    EXPECT_EQ(work.problem.num_heads_kv, 8);
  }
  EXPECT_EQ(order, (Texts{"8 64 1", "8 64 2", "8 32 1", "8 32 2", "16 64 1", "16 64 2", "16 32 1",
                          "16 32 2"}));
}

TEST(Expand, ALengthThatIsNotGivenIsSeqlen) {
  const auto queries = expanded(sweep_of({{"seqlen", "64"}, {"seqlen_q", "1,2"}}));
  ASSERT_EQ(queries.size(), 2u);
  EXPECT_EQ(queries[1].problem.seqlen_q, 2);
  EXPECT_EQ(queries[1].problem.seqlen_k, 64);
  const auto keys = expanded(sweep_of({{"seqlen_k", "5"}}));
  EXPECT_EQ(keys.at(0).problem.seqlen_q, 1024);
  EXPECT_EQ(keys.at(0).problem.seqlen_k, 5);
  const auto both = expanded(sweep_of({{"seqlen_q", "3"}, {"seqlen_k", "5"}}));
  EXPECT_EQ(both.at(0).problem.seqlen_q, 3);
  EXPECT_EQ(both.at(0).problem.seqlen_k, 5);
  EXPECT_PRED2(contains,
               error_of(sweep_of({{"seqlen", "9"}, {"seqlen_q", "3"}, {"seqlen_k", "5"}})),
               "seqlen");
}

TEST(Expand, KernelsCompeteWithTheConfigsTheyDeclare) {
  const auto cases = expanded(sweep_of({{"block", "64x64,16x32"}}));
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(names(cases[0]), (Texts{"naive default", "v2 block_m=64,block_n=64,stages=2",
                                    "v2 block_m=16,block_n=32,stages=2"}));
  EXPECT_EQ(cases[0].competitors[0].implementation, &fake::kNaive);
  EXPECT_EQ(cases[0].competitors[0].unsupported, "");
  EXPECT_EQ(names(expanded(sweep_of({{"kernel", "v2"}})).at(0)),
            (Texts{"v2 block_m=64,block_n=32,stages=2"}));
}

TEST(Expand, ConfigAxesAreProjectedOnWhatAKernelDeclares) {
  const auto cases =
      expanded(sweep_of({{"block", "64x64"}, {"stages", "2,3"}, {"deterministic", "0,1"}}));
  EXPECT_EQ(names(cases.at(0)), (Texts{"naive default", "v2 block_m=64,block_n=64,stages=2",
                                       "v2 block_m=64,block_n=64,stages=3"}));
  Sweep sweep = sweep_of({{"stages", "2,3"}});
  sweep.exclude.push_back({{{"stages", {"3"}}}, "two are enough"});
  const auto excluded = expanded(sweep);
  EXPECT_EQ(excluded.at(0).competitors.at(1).skipped, "");
  EXPECT_EQ(excluded.at(0).competitors.at(2).skipped, "two are enough");
}

// This kernel chooses its tile by head_dim where the config leaves it open.
constexpr ConfigAxis kOpenBlocks[] = {{"block_m", "query rows", 0, 0, 256},
                                      {"block_n", "keys", 0, 0, 256}};
Config with_chosen_block(const Problem& problem, const Config& config, const Device& /*device*/) {
  if (problem.pass != Pass::fwd) throw std::logic_error("asked of what is unsupported");
  Config chosen = config;
  if (config.get("block_m") == 0) chosen.set("block_m", problem.head_dim <= 64 ? 128 : 64);
  if (config.get("block_n") == 0) chosen.set("block_n", 64);
  return chosen;
}
Registry choosing_registry() {
  static constexpr Implementation kChooses = [] {
    Implementation kernel = fake::make("chooses", Backend::cpu, true);
    kernel.axes = kOpenBlocks;
    kernel.num_axes = 2;
    kernel.resolved = with_chosen_block;
    return kernel;
  }();
  Registry registry;
  registry.add(kChooses);
  return registry;
}

TEST(Expand, WhatAConfigLeavesOpenIsFilledInForTheProblem) {
  const Sweep sweep =
      sweep_of({{"kernel", "chooses"}, {"head_dim", "64,128"}, {"block", "0x0,128x64,128x0"}});
  const Registry registry = choosing_registry();
  const auto cases = expand(sweep, registry, fake::cpu());
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(names(cases[0]), Texts{"chooses block_m=128,block_n=64"}) << "three ways to say it";
  EXPECT_EQ(names(cases[1]),
            (Texts{"chooses block_m=64,block_n=64", "chooses block_m=128,block_n=64"}));
  const auto asked = [&](std::size_t place) {
    Texts texts;
    for (const Competitor& competitor : cases[place].competitors) {
      texts.push_back(competitor.asked.to_string());
    }
    return texts;
  };
  EXPECT_EQ(asked(0), Texts{"block_m=0,block_n=0"});
  EXPECT_EQ(asked(1), (Texts{"block_m=0,block_n=0", "default"})) << "nothing was left open";
  Sweep by_default = sweep_of({{"kernel", "chooses"}, {"head_dim", "128"}});
  by_default.axes.push_back(sweep_of({{"head_dim", "128"}, {"block", "64x64"}}).axes.front());
  EXPECT_EQ(names(expand(by_default, registry, fake::cpu()).at(0)),
            Texts{"chooses block_m=64,block_n=64"});
}

TEST(Expand, NothingIsFilledInForWhatIsUnsupported) {
  const Sweep sweep = sweep_of({{"kernel", "chooses"}, {"pass", "bwd"}, {"block", "0x0,256x64"}});
  const auto competitors = expand(sweep, choosing_registry(), fake::cpu()).at(0).competitors;
  ASSERT_EQ(competitors.size(), 2u);
  EXPECT_EQ(competitors[0].config.to_string(), "block_m=0,block_n=0");
  EXPECT_EQ(competitors[0].unsupported, "no backward");
  EXPECT_EQ(competitors[1].unsupported, "no backward");
}

TEST(Expand, WhatCannotRunIsUnsupportedWithItsReason) {
  const auto cases = expanded(
      sweep_of({{"kernel", "v2,own"}, {"pass", "fwd,bwd"}, {"block", "16x64"}, {"seqlen", "64"}}));
  ASSERT_EQ(cases.size(), 2u);
  const auto& competitors = cases[0].competitors;
  ASSERT_EQ(competitors.size(), 2u);
  EXPECT_EQ(competitors[0].unsupported, "");
  EXPECT_EQ(competitors[1].unsupported, "no kernel 'own' on backend cpu; there are: naive, v2");
  const auto backward = expanded(sweep_of({{"kernel", "naive"}, {"pass", "bwd"}}));
  EXPECT_EQ(backward.at(0).competitors.at(0).unsupported, "no backward");
}

TEST(Expand, PatternsThatCannotBeFormedAreUnsupported) {
  const auto oblong = expanded(
      sweep_of({{"mask", "blocks:butterfly:8x8"}, {"seqlen_q", "8"}, {"kernel", "naive"}}));
  EXPECT_PRED2(contains, oblong.at(0).competitors.at(0).unsupported, "seqlen_q = seqlen_k");
  const TestFile file(".txt", "10\n11\n");
  const std::string mask = "blocks:file=" + file.path().string() + ":8x8";
  const auto large =
      expanded(sweep_of({{"mask", mask.c_str()}, {"seqlen", "24"}, {"kernel", "naive"}}));
  EXPECT_PRED2(contains, large.at(0).competitors.at(0).unsupported, "3 of 3 are needed");
}

TEST(Expand, WhatIsWrongWhateverTheProblemIsAnError) {
  EXPECT_EQ(error_of(sweep_of({{"kernel", "v2"}, {"block", "64x64,8x64"}})),
            "a.json: block 8x64: block_m = 8 is outside v2's [16, 256]");
  EXPECT_EQ(error_of(sweep_of({{"stages", "2,7"}})),
            "a.json: stages 7: stages = 7 is outside v2's [1, 4]");
  EXPECT_EQ(error_of(sweep_of({{"kernel", "naive"}, {"block", "8x64"}, {"stages", "7"}})), "")
      << "naive has no such axes";
  EXPECT_EQ(error_of(sweep_of({{"mask", "none,blocks:file=/nowhere:8x8"}})),
            "a.json: mask 'blocks:file=/nowhere:8x8': block pattern file '/nowhere' cannot be read "
            "as a file");
  const TestFile ragged(".txt", "10\n1\n");
  const std::string mask = "blocks:file=" + ragged.path().string() + ":8x8";
  EXPECT_PRED2(contains, error_of(sweep_of({{"mask", mask.c_str()}})),
               "line 2 has 1 blocks, line 1 has 2");
}

// One kernel takes the value, so it is no error; the others are unsupported.
TEST(Expand, WhatOneKernelTakesIsNoError) {
  Registry registry = choosing_registry();
  registry.add(fake::kTiled);
  const auto competitors =
      expand(sweep_of({{"block", "0x64"}}), registry, fake::cpu()).at(0).competitors;
  ASSERT_EQ(competitors.size(), 2u);
  EXPECT_EQ(competitors[0].unsupported, "");
  EXPECT_EQ(competitors[1].unsupported, "block_m = 0 is outside v2's [16, 256]");
}

TEST(Expand, AMachineWithoutTheBackendStillHasPoints) {
  const Sweep sweep = sweep_of({{"kernel", "own,v2"}});
  const auto cases = expand(sweep, fake::registry(), Device{.backend = Backend::cuda});
  ASSERT_EQ(cases.at(0).competitors.size(), 2u);
  EXPECT_PRED2(starts_with, cases[0].competitors[0].unsupported,
               "this machine has no cuda device: ");
  EXPECT_EQ(cases[0].competitors[1].unsupported, "no kernel 'v2' on backend cuda; there are: own");
  Registry elsewhere;
  elsewhere.add(fake::kOwn);
  const auto competitors = expand({}, elsewhere, fake::cpu()).at(0).competitors;
  ASSERT_EQ(competitors.size(), 1u);
  EXPECT_EQ(competitors[0].unsupported, "there are no kernels on backend cpu");
}

TEST(Expand, PeersCompeteOnEveryCaseOnce) {
  Sweep sweep = sweep_of({{"kernel", "v2"}, {"seqlen", "8,16"}, {"block", "64x64,16x32"}});
  sweep.axes.push_back(sweep.axes.front());  // the same cases again
  sweep.peers = {"torch:eager", "torch:flash"};
  const auto cases = expanded(sweep);
  ASSERT_EQ(cases.size(), 2u);
  for (const Case& work : cases) {
    Texts kernels;
    for (const Competitor& competitor : work.competitors) kernels.push_back(competitor.kernel);
    EXPECT_EQ(kernels, (Texts{"v2", "v2", "torch:eager", "torch:flash"}));
    EXPECT_EQ(work.competitors[3].implementation, nullptr);
    EXPECT_EQ(work.competitors[3].backend, Backend::cpu);
  }
  const auto nowhere = expand(sweep, fake::registry(), Device{.backend = Backend::cuda});
  EXPECT_PRED2(starts_with, nowhere.at(0).competitors.back().unsupported,
               "this machine has no cuda device: ");
}

TEST(Expand, ProductsAreMergedByProblem) {
  Sweep sweep = sweep_of({{"seqlen", "8,16"}, {"kernel", "v2"}, {"block", "64x64"}});
  sweep.axes.push_back(sweep_of({{"seqlen", "16,32"}, {"block", "64x64,16x32"}}).axes.front());
  const auto cases = expanded(sweep);
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].problem.seqlen_q, 8);
  EXPECT_EQ(names(cases[0]), (Texts{"v2 block_m=64,block_n=64,stages=2"}));
  EXPECT_EQ(names(cases[1]), (Texts{"v2 block_m=64,block_n=64,stages=2", "naive default",
                                    "v2 block_m=16,block_n=32,stages=2"}));
  EXPECT_EQ(cases[2].problem.seqlen_q, 32);
  EXPECT_EQ(cases[2].competitors.size(), 3u);
}

TEST(Expand, AMisspeltKernelIsAnError) {
  EXPECT_EQ(error_of(sweep_of({{"kernel", "naiv"}})),
            "a.json: kernel: 'naiv' is unknown; did you mean 'naive'?; there are: naive, v2, own");
}

TEST(Expand, ImpossibleProblemsNameTheAxis) {
  EXPECT_PRED2(starts_with, error_of(sweep_of({{"heads", "8"}, {"heads_kv", "3"}})),
               "a.json: axes: heads = 8 is not a multiple of heads_kv = 3");
  EXPECT_PRED2(contains, error_of(sweep_of({{"mask", "padding:100"}, {"seqlen", "99"}})),
               "mask: 'padding:100' needs 100 keys but seqlen_k is 99");
  EXPECT_PRED2(contains, error_of(sweep_of({{"dropout", "0.9999999"}})), "dropout");
  EXPECT_PRED2(contains, error_of(sweep_of({{"seqlen", "1:4000:+1"}, {"head_dim", "1:256:+1"}})),
               "above 100000 cases");
}

TEST(Expand, AScaleIsPartOfTheProblemAndItsDefaultOfNoName) {
  const auto cases = expanded(sweep_of({{"softmax_scale", "0,0.5,0.500000000001"}}));
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].problem.id(), expanded(sweep_of({})).at(0).problem.id());
  EXPECT_EQ(cases[1].problem.scale(), 0.5);
  EXPECT_EQ(cases[1].problem.id(), cases[0].problem.id() + "/scale0.5");
  EXPECT_EQ(cases[2].problem.id(), cases[0].problem.id() + "/scale0.500000000001");
  EXPECT_PRED2(contains, error_of(sweep_of({{"softmax_scale", "1e39"}})),
               "softmax_scale must lie in [1e-37, 1e38]");
}

TEST(Expand, PaddingLengthsComeFromTheSeed) {
  const auto keys = [](const char* seed, const char* mask) {
    const Sweep sweep =
        sweep_of({{"mask", mask}, {"batch", "200"}, {"seqlen", "64"}, {"seed", seed}});
    const Problem problem = expanded(sweep).at(0).problem;
    EXPECT_EQ(problem.lengths.kind, LengthsKind::padding);
    EXPECT_EQ(invalid(problem), "");
    return problem.lengths.keys;
  };
  EXPECT_EQ(keys("7", "padding"), keys("7", "causal+padding"));
  EXPECT_NE(keys("7", "padding"), keys("8", "padding"));
  const auto spread = keys("7", "padding");
  EXPECT_EQ(*std::min_element(spread.begin(), spread.end()), 44);
  EXPECT_EQ(*std::max_element(spread.begin(), spread.end()), 64);
  const auto narrow = keys("7", "padding:63");
  EXPECT_EQ(std::set<std::int64_t>(narrow.begin(), narrow.end()), (std::set<std::int64_t>{63, 64}));
  // The first draws of std::mt19937_64 are fixed by the standard: these lengths are the same
  // everywhere.
  EXPECT_EQ(std::vector<std::int64_t>(spread.begin(), spread.begin() + 4),
            (std::vector<std::int64_t>{59, 62, 59, 53}));
}

TEST(Expand, PackedLengthsComeFromTheSeed) {
  const auto lengths = [](const char* seed, const char* seqlen_q, const char* seqlen_k) {
    const Problem problem = expanded(sweep_of({{"layout", "packed"},
                                               {"batch", "300"},
                                               {"seqlen_q", seqlen_q},
                                               {"seqlen_k", seqlen_k},
                                               {"seed", seed}}))
                                .at(0)
                                .problem;
    EXPECT_EQ(invalid(problem), "");
    EXPECT_FALSE(problem.lengths.given);
    return problem.lengths;
  };
  const Lengths square = lengths("7", "20", "20");
  EXPECT_EQ(square.queries, square.keys);
  EXPECT_EQ(*std::min_element(square.keys.begin(), square.keys.end()), 1);
  EXPECT_EQ(*std::max_element(square.keys.begin(), square.keys.end()), 20);
  EXPECT_EQ(square, lengths("7", "20", "20"));
  EXPECT_NE(square, lengths("8", "20", "20"));
  const Lengths oblong = lengths("7", "20", "9");
  EXPECT_NE(oblong.queries, oblong.keys);
  EXPECT_EQ(*std::max_element(oblong.queries.begin(), oblong.queries.end()), 20);
  EXPECT_EQ(*std::max_element(oblong.keys.begin(), oblong.keys.end()), 9);
}

TEST(Expand, GivenLengthsArePartOfTheProblem) {
  const auto cases = expanded(sweep_of(
      {{"mask", "padding"}, {"batch", "3"}, {"seqlen", "64"}, {"lengths", "drawn,10+64+0"}}));
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_FALSE(cases[0].problem.lengths.given);
  const Problem& padded = cases[1].problem;
  EXPECT_EQ(
      padded.lengths,
      (Lengths{.kind = LengthsKind::padding, .given = true, .queries = {}, .keys = {10, 64, 0}}));
  EXPECT_TRUE(padded.id().ends_with("/len10+64+0")) << padded.id();
  const Problem packed = expanded(sweep_of({{"layout", "packed"},
                                            {"batch", "2"},
                                            {"seqlen_q", "8"},
                                            {"seqlen_k", "16"},
                                            {"lengths", "3x16+5"}}))
                             .at(0)
                             .problem;
  EXPECT_EQ(
      packed.lengths,
      (Lengths{.kind = LengthsKind::packed, .given = true, .queries = {3, 5}, .keys = {16, 5}}));
  EXPECT_TRUE(packed.id().ends_with("/len3x16+5")) << packed.id();
}

TEST(Expand, LengthsThatDoNotFitAreErrorsWithARemedy) {
  const auto error = [](const char* layout, const char* mask, const char* lengths) {
    return error_of(sweep_of({{"layout", layout},
                              {"mask", mask},
                              {"lengths", lengths},
                              {"batch", "2"},
                              {"seqlen_q", "8"},
                              {"seqlen_k", "16"}}));
  };
  EXPECT_PRED2(starts_with, error("bshd", "none", "3+4"),
               "a.json: lengths: '3+4' needs entries of different lengths: take layout packed or");
  EXPECT_PRED2(contains, error("packed", "none", "3"),
               "lengths: '3' are 1 length, but batch is 2: take batch 1, or give 2");
  EXPECT_PRED2(contains, error("bshd", "padding", "3+17"),
               "lengths: '3+17' has an entry of 17, but seqlen_k is 16: shorten");
  EXPECT_PRED2(contains, error("packed", "none", "9x3+4"), "an entry of 9, but seqlen_q is 8");
  EXPECT_PRED2(contains, error("bshd", "padding", "2x3+4"), "mask padding hides keys alone");
  EXPECT_PRED2(contains, error("packed", "padding", "drawn"),
               "mask: padding has no meaning with layout packed");
  EXPECT_EQ(error("packed", "causal", "8x16+0"), "");
}

TEST(Expand, ExclusionsSkipExactlyTheirPoints) {
  Sweep sweep = sweep_of({{"seqlen", "32,64"}, {"block", "16x16,32x32"}});
  sweep.exclude.push_back({{{"seqlen", {"64"}}, {"block", {"32x32"}}}, "too slow"});
  sweep.exclude.push_back({{{"kernel", {"naive"}}, {"seqlen", {"32", "64"}}}, "not naive"});
  const auto cases = expanded(sweep);
  std::vector<std::string> skipped;
  for (const Case& work : cases) {
    for (const Competitor& competitor : work.competitors) skipped.push_back(competitor.skipped);
  }
  EXPECT_EQ(skipped, (Texts{"not naive", "", "", "not naive", "", "too slow"}));
}

TEST(Expand, AnExclusionWithoutAPointIsAnError) {
  Sweep sweep = sweep_of({{"seqlen", "32"}});
  sweep.exclude.push_back({{{"seqlen", {"64"}}}, "too slow"});
  EXPECT_EQ(error_of(sweep), "a.json: exclude[0]: matches no point of the sweep");
  sweep.overridden = true;
  EXPECT_EQ(error_of(sweep), "");
  sweep.exclude[0].where.push_back({"kernel", {"navie"}});
  EXPECT_PRED2(contains, error_of(sweep), "did you mean 'naive'?");
}

TEST(Expand, TheSweepOfFlashAttention2HasItsSetting) {
  const auto cases = expanded(read_sweep(in_tree("sweeps/fa2.json"), builtin_registry()));
  std::set<std::string> ids;
  for (const Case& work : cases) {
    const Problem& problem = work.problem;
    EXPECT_EQ(problem.batch * problem.seqlen_q, 16384) << problem.id();
    EXPECT_EQ(problem.num_heads_q * problem.head_dim, 2048) << problem.id();
    ids.insert(problem.id());
  }
  EXPECT_EQ(ids.size(), 2u * 2 * 2 * 3 * 2 * 6);  // pass, dtype, layout, head_dim, mask, seqlen
}

// Tuning tries every combination that the kernel can take, beside its own choice.
TEST(Expand, TuningTriesWhatIsOpen) {
  static constexpr std::int64_t kTriedRows[] = {64, 128};
  static constexpr std::int64_t kTriedStages[] = {1, 4};
  static constexpr ConfigAxis kAxes[] = {{"block_m", "query rows", 64, 16, 256, kTriedRows},
                                         {"block_n", "keys", 32, 16, 256},
                                         {"stages", "tiles in flight", 2, 1, 4, kTriedStages}};
  static constexpr Implementation kTuned = [] {
    Implementation kernel = fake::kTiled;
    kernel.axes = kAxes;
    kernel.unsupported = [](const Problem&, const Config& config, const Device&) -> std::string {
      return config.get("block_m") * config.get("stages") > 256 ? "too large" : "";
    };
    return kernel;
  }();
  static constexpr const Implementation* kAll[] = {&kTuned};
  Sweep sweep = sweep_of({{"kernel", "v2"}});
  sweep.tune = true;
  const auto tried = expand(sweep, Registry(kAll), fake::cpu());
  EXPECT_EQ(names(tried.at(0)),
            (Texts{"v2 block_m=64,block_n=32,stages=2",  // its own choice
                   "v2 block_m=64,block_n=32,stages=1", "v2 block_m=64,block_n=32,stages=4",
                   "v2 block_m=128,block_n=32,stages=1"}));

  const auto with = [](const char* axis, const char* values) {
    Sweep given = sweep_of({{"kernel", "v2"}, {axis, values}});
    given.tune = true;
    return names(expand(given, Registry(kAll), fake::cpu()).at(0));
  };
  EXPECT_EQ(with("stages", "1"),
            (Texts{"v2 block_m=64,block_n=32,stages=1", "v2 block_m=128,block_n=32,stages=1"}));
  EXPECT_EQ(with("block", "64x32"),  // its default, but asked for
            (Texts{"v2 block_m=64,block_n=32,stages=2", "v2 block_m=64,block_n=32,stages=1",
                   "v2 block_m=64,block_n=32,stages=4"}));
}

TEST(Expand, TuningTriesTilesOfEveryKernelThatHasSome) {
  for (const Implementation* kernel : builtin_registry().all()) {
    const bool has_tiles = default_config(*kernel).contains("block_m");
    for (const char* name : {"block_m", "block_n"}) {
      for (int i = 0; i < kernel->num_axes; ++i) {
        const ConfigAxis& axis = kernel->axes[i];
        if (std::string_view(axis.name) != name) continue;
        EXPECT_GE(axis.tried.size(), 3u) << kernel->name << " on " << to_string(kernel->backend);
        for (const std::int64_t value : axis.tried) EXPECT_LE(value, axis.maximum);
      }
    }
    Sweep sweep = sweep_of({{"kernel", kernel->name}, {"dtype", "f16"}});
    sweep.tune = true;
    const Device device =
        kernel->backend == Backend::cpu ? available_devices().back() : device_of_arch("sm_90a");
    const std::size_t tried = expand(sweep, builtin_registry(), device).at(0).competitors.size();
    EXPECT_EQ(tried > 4, has_tiles)
        << tried << " configs of " << kernel->name << " on " << to_string(kernel->backend);
  }
}

}  // namespace
}  // namespace attnlab
