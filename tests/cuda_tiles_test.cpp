// Tests what GPU kernels make of the tiles that the verifier has for them; nothing is launched.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"

namespace attnlab {
namespace {

using Values = std::set<std::int64_t>;

// Taken is what one pass takes.
struct Taken {
  int tiles = 0;
  std::map<std::string, Values> values;  // of each axis, filled in
  std::set<std::string> units;
};

Taken taken_by(const Implementation& kernel, Pass pass, const Device& device) {
  Taken taken;
  for (const ConfigsToVerify& group : kernel.configs_to_verify()) {
    const Problem problem = {.pass = pass,
                             .dtype = group.dtype,
                             .seqlen_q = 300,
                             .seqlen_k = 300,
                             .head_dim = group.head_dim,
                             .dropout = group.dropout};
    for (const Config& tile : group.configs) {
      Config config = default_config(kernel);
      config.set_all(tile);
      if (!kernel.unsupported(problem, config, device).empty()) continue;
      ++taken.tiles;
      const Config filled = resolved(kernel, problem, config, device);
      for (const auto& [name, value] : filled.values()) taken.values[name].insert(value);
      for (const KernelUnit& unit : kernel.units(problem, config, device)) {
        taken.units.insert(unit.name);
      }
    }
  }
  return taken;
}

// One of them follows from sram.
TEST(CompiledTiles, BothPassesOfV1TakeSeveralAndFewAreCompiled) {
  const Implementation& v1 = *builtin_registry().find("v1", Backend::cuda);
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Taken forward = taken_by(v1, Pass::fwd, device_of_arch(arch));
    EXPECT_GE(forward.tiles, 12) << arch;
    EXPECT_GT(*forward.values.at("sram").rbegin(), 0);
    const Taken backward = taken_by(v1, Pass::bwd, device_of_arch(arch));
    EXPECT_GE(backward.tiles, 5) << arch;
    EXPECT_GT(*backward.values.at("sram").rbegin(), 0);
    EXPECT_LE(forward.units.size() + backward.units.size(), 22U);
  }
}

TEST(CompiledTiles, BothPassesOfV2TakeSeveralAndFewAreCompiled) {
  const Implementation& v2 = *builtin_registry().find("v2", Backend::cuda);
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Taken forward = taken_by(v2, Pass::fwd, device_of_arch(arch));
    EXPECT_GE(forward.tiles, 6) << arch;
    EXPECT_EQ(forward.values.at("warps"), (Values{2, 4, 8, 16}));
    EXPECT_EQ(forward.values.at("stages"), (Values{1, 2, 3, 4}));
    const Taken backward = taken_by(v2, Pass::bwd, device_of_arch(arch));
    EXPECT_GE(backward.tiles, 6) << arch;
    EXPECT_EQ(backward.values.at("warps"), (Values{2, 4, 8}));
    EXPECT_EQ(backward.values.at("stages"), Values{2});
    EXPECT_LE(forward.units.size() + backward.units.size(), 16U);
  }
}

TEST(CompiledTiles, V3TakesSeveralWithAndWithoutAProducer) {
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  const Taken forward = taken_by(v3, Pass::fwd, device_of_arch("sm_90a"));
  EXPECT_GE(forward.tiles, 8);
  EXPECT_EQ(forward.values.at("consumers"), (Values{1, 2, 3}));
  EXPECT_EQ(forward.values.at("producer"), (Values{0, 1}));
  EXPECT_EQ(forward.values.at("overlap"), (Values{0, 1}));
  EXPECT_EQ(forward.values.at("ping_pong"), (Values{0, 1}));
}

TEST(CompiledTiles, V3TakesThoseOfE4m3PromotedAndNot) {
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  const Device device = device_of_arch("sm_90a");
  std::map<std::string, Values> values;
  for (const ConfigsToVerify& group : v3.configs_to_verify()) {
    if (group.dtype != Dtype::e4m3) continue;
    const Problem problem = {.dtype = group.dtype,
                             .seqlen_q = 300,
                             .seqlen_k = 300,
                             .head_dim = group.head_dim,
                             .quantisation = group.quantisation};
    for (const Config& tile : group.configs) {
      Config config = default_config(v3);
      config.set_all(tile);
      EXPECT_EQ(v3.unsupported(problem, config, device), "") << config.to_string();
      for (const auto& [name, value] : tile.values()) values[name].insert(value);
    }
  }
  for (const char* name : {"overlap", "ping_pong", "promote"}) {
    EXPECT_EQ(values.at(name), (Values{0, 1})) << name;
  }
  EXPECT_EQ(values.at("consumers"), (Values{1, 2, 3}));
  EXPECT_EQ(values.at("block_n"), (Values{64, 128, 192}));
  EXPECT_EQ(values.at("stages"), (Values{2, 3, 4}));
}

// Returns "d64-192x128-s3" of "v3-forward-f16-d64-192x128-s3-overlap-pingpong".
std::string tile_and_stages(const KernelUnit& unit) {
  const std::string tile = unit.name.substr(unit.name.find("-d") + 1);
  return tile.substr(0, tile.find("-s") + 3);
}

TEST(CompiledTiles, V3ChoosesByWhatRowsSee) {
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  const Problem whole = {
      .dtype = Dtype::f16, .seqlen_q = 4096, .seqlen_k = 4096, .head_dim = 64, .mask = {}};
  const auto choice = [&](const char* mask, auto... edits) {
    Problem problem = whole;
    problem.mask = parse_mask(mask);
    (edits(problem), ...);
    const KernelUnit unit = v3.units(problem, default_config(v3), device_of_arch("sm_90a")).front();
    const auto blocks = unit.source.find(".blocks = ");
    return tile_and_stages(unit) + " " + unit.source.substr(blocks + 10, 1);
  };
  const auto wide = [](Problem& problem) { problem.head_dim = 128; };
  const auto drops = [](Problem& problem) { problem.dropout = 0.1; };
  const auto short_keys = [](Problem& problem) { problem.seqlen_k = 1024; };
  const auto of = [](std::int64_t seqlen_q, std::int64_t seqlen_k) {
    return [=](Problem& problem) {
      problem.seqlen_q = seqlen_q;
      problem.seqlen_k = seqlen_k;
    };
  };
  const auto few_rows = [](Problem& problem) { problem.seqlen_q = 64; };

  EXPECT_EQ(choice("none"), "d64-192x128-s3 1");
  EXPECT_EQ(choice("causal"), "d64-192x128-s3 1");
  EXPECT_EQ(choice("causal", short_keys), "d64-64x64-s2 3");
  EXPECT_EQ(choice("window:1024:0"), "d64-64x64-s2 3");
  EXPECT_EQ(choice("window:1025:0"), "d64-192x128-s3 1");
  EXPECT_EQ(choice("window:9:-1"), "d64-192x128-s3 1");
  EXPECT_EQ(choice("causal", short_keys, drops), "d64-128x128-s2 1");
  EXPECT_EQ(choice("none", few_rows), "d64-64x128-s2 2");
  EXPECT_EQ(choice("none", wide), "d128-192x80-s2 1");
  EXPECT_EQ(choice("none", wide, short_keys), "d128-128x128-s2 1");
  EXPECT_EQ(choice("none", wide, few_rows), "d128-128x128-s2 1");
  EXPECT_EQ(choice("none", wide, drops), "d128-128x128-s2 1");
  const auto wider = [](Problem& problem) { problem.head_dim = 192; };
  EXPECT_EQ(choice("none", wider), "d192-128x112-s2 1");
  EXPECT_EQ(choice("none", wider, drops), "d192-128x96-s2 1");
  EXPECT_EQ(choice("causal", wide), "d128-128x128-s2 1");
  EXPECT_EQ(choice("causal", wide, of(8192, 8192)), "d128-192x80-s2 1");
  EXPECT_EQ(choice("causal", wide, of(8191, 8192)), "d128-128x128-s2 1");
  EXPECT_EQ(choice("causal", wide, of(8192, 8191)), "d128-128x128-s2 1");
  EXPECT_EQ(choice("window:8192:0", wide, of(16384, 16384)), "d128-192x80-s2 1");
  EXPECT_EQ(choice("window:8191:0", wide, of(16384, 16384)), "d128-128x128-s2 1");
  EXPECT_EQ(choice("none", wide, of(2048, 2048)), "d128-192x80-s2 1");
  EXPECT_EQ(choice("none", wide, of(2047, 2048)), "d128-128x128-s2 1");
  EXPECT_EQ(choice("blocks:butterfly:128x128", wide), "d128-128x128-s2 1");
  EXPECT_EQ(choice("blocks:butterfly:256x256"), "d64-128x128-s2 1");
  EXPECT_EQ(choice("blocks:butterfly:128x64"), "d64-128x64-s2 1");
  EXPECT_EQ(choice("blocks:butterfly:64x128"), "d64-64x64-s2 3");
  EXPECT_EQ(choice("blocks:butterfly:48x48", wide), "d128-64x64-s2 2");
}

TEST(CompiledTiles, V3sStagesAreThoseOfTheTileThatIsAskedFor) {
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  const auto choice = [&](std::int64_t seqlen, std::int64_t block_m) {
    const Problem problem = {.dtype = Dtype::f16,
                             .seqlen_q = seqlen,
                             .seqlen_k = seqlen,
                             .head_dim = 64,
                             .mask = parse_mask("causal")};
    Config config = default_config(v3);
    config.set("block_m", block_m);
    config.set("block_n", 128);
    const KernelUnit unit = v3.units(problem, config, device_of_arch("sm_90a")).front();
    return tile_and_stages(unit);
  };
  EXPECT_EQ(choice(4096, 128), "d64-128x128-s2");
  EXPECT_EQ(choice(4096, 192), "d64-192x128-s3");
  EXPECT_EQ(choice(512, 192), "d64-192x128-s3");
}

// A tile that reaches across a border between blocks is multiplied whole.
TEST(CompiledTiles, UnderAPatternTheyLieWithinItsBlocks) {
  const Device device = device_of_arch("sm_90a");
  for (const char* name : {"v1", "v2", "v3"}) {
    const Implementation& kernel = *builtin_registry().find(name, Backend::cuda);
    int tiles = 0;
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      if (kernel.name == std::string("v3") && pass == Pass::bwd) continue;  // it has no choice
      for (const std::int64_t head_dim : {32, 64, 96, 128, 192, 256}) {
        for (const double dropout : {0.0, 0.1}) {
          for (const int size : {64, 128, 192, 256}) {
            Problem problem = {.pass = pass,
                               .dtype = Dtype::f16,
                               .seqlen_q = 4096,
                               .seqlen_k = 4096,
                               .head_dim = head_dim,
                               .dropout = dropout};
            const std::string blocks = std::to_string(size) + "x" + std::to_string(size);
            problem.mask = parse_mask("blocks:butterfly:" + blocks);
            const Config open = default_config(kernel);
            if (!kernel.unsupported(problem, open, device).empty()) continue;
            ++tiles;
            const Config filled = resolved(kernel, problem, open, device);
            EXPECT_EQ(size % filled.get("block_m"), 0)
                << name << " d " << head_dim << " " << blocks;
            EXPECT_EQ(size % filled.get("block_n"), 0)
                << name << " d " << head_dim << " " << blocks;
          }
        }
      }
    }
    EXPECT_GE(tiles, 6 * 2 * 4) << name;  // of one pass at the least
  }
}

TEST(CompiledTiles, WithoutAProducerV3HasNoPingPongAndAlwaysOverlaps) {
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  const Problem problem = {.dtype = Dtype::f16, .seqlen_q = 300, .seqlen_k = 300, .head_dim = 128};
  const auto why_not = [&](const char* axis, std::int64_t value) {
    Config config = default_config(v3);
    config.set("producer", 0);
    config.set(axis, value);
    return v3.unsupported(problem, config, device_of_arch("sm_90a"));
  };
  EXPECT_EQ(why_not("overlap", 1), "");
  EXPECT_NE(why_not("ping_pong", 1).find("ping_pong = 1 with producer = 0"), std::string::npos);
  EXPECT_NE(why_not("overlap", 0).find("overlap = 0 with producer = 0"), std::string::npos);
}

}  // namespace
}  // namespace attnlab
