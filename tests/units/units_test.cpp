// Tests what NVRTC makes of the units of every kernel for GPUs, with default tiles: no GPU is
// needed. Every pair of what decides a unit is compiled; ATTNLAB_ALL_UNITS=1 takes the whole
// product (scripts/compile_all.sh).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/arch.h"
#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"
#include "kernels/cuda/jit.h"
#include "kernels/cuda/test_support.h"
#include "tests/paths.h"
#include "tests/units/pairwise.h"

namespace attnlab {
namespace {

// KnownSpill is what spills all the same, of all units whose names begin so: what a thread stores
// and loads because its registers do not suffice, by NVRTC 13.0; other versions may need less. Such
// a unit is refused on the arch (KernelUnit::must_be_clean).
struct KnownSpill {
  const char* unit;
  const char* entry;
  const char* arch;
  std::int64_t bytes;
};

constexpr KnownSpill kKnownSpills[] = {
    {"v1-forward-f16-d64-32x256-dropout", "forward", "sm_100a", 186},
    {"v1-forward-bf16-d64-32x256-dropout", "forward", "sm_100a", 186},
    {"v2-forward-f16-d64-128x128-w4-s1", "forward", "sm_120a", 32},
    {"v2-forward-bf16-d64-128x128-w4-s1", "forward", "sm_120a", 32},
    {"v2-backward-", "prepare_rows", "sm_120a", 352},
};

std::int64_t known_spill(const KernelUnit& unit, const std::string& entry, const char* arch) {
  for (const KnownSpill& known : kKnownSpills) {
    if (unit.name.starts_with(known.unit) && entry == known.entry &&
        std::string(arch) == known.arch) {
      return known.bytes;
    }
  }
  return 0;
}

struct Point {
  const Implementation* kernel = nullptr;
  const char* arch = "";
  std::string name;  // of the test
  Problem problem;
  Config config;
};

void PrintTo(const Point& point, std::ostream* out) { *out << point.name; }  // in ctest's names

struct MaskOfPoint {
  const char* name;
  const char* mask;
};

constexpr MaskOfPoint kMasks[] = {{"full", "none"},
                                  {"causal", "causal"},
                                  {"left", "window:100:0"},
                                  {"blocks128", "blocks:butterfly:128x128"},
                                  {"blocks64", "blocks:butterfly:64x64"},
                                  {"blocks32", "blocks:butterfly:32x32"}};

// Returns all that some kernel supports, and each one as numbers. Kernel, pass and dropout are one
// number, so that each three of them meet every head_dim and every arch: they decide the tile. So
// does a block pattern, part of that number for v3 alone: its consumers have no register left.
std::pair<std::vector<Point>, PairwiseTable> product() {
  std::vector<Point> points;
  PairwiseTable table;
  int number = -1;
  for (const Implementation* kernel : builtin_registry().all()) {
    if (kernel->units == nullptr) continue;
    ++number;
    for (const Arch& arch : known_archs()) {
      const Device device = device_of_arch(arch.name);
      for (const int head_dim : {24, 64, 96, 128, 192, 256}) {
        for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3}) {
          for (const double dropout : {0.0, 0.1}) {
            for (const MaskOfPoint& mask : kMasks) {
              for (const Pass pass : {Pass::fwd, Pass::bwd}) {
                const Problem problem = {.pass = pass,
                                         .dtype = dtype,
                                         .batch = 2,
                                         .num_heads_q = 4,
                                         .num_heads_kv = 2,
                                         .seqlen_q = 512,
                                         .seqlen_k = 512,
                                         .head_dim = head_dim,
                                         .mask = parse_mask(mask.mask),
                                         .dropout = dropout};
                const Config config = default_config(*kernel);
                if (problem.is_e4m3() && !kernel->has_e4m3) continue;
                if (!kernel->unsupported(problem, config, device).empty()) continue;
                const std::string name = std::string(kernel->name) + "_" + arch.name + "_d" +
                                         std::to_string(head_dim) + "_" + to_string(dtype) +
                                         (dropout > 0.0 ? "_dropout_" : "_") + mask.name + "_" +
                                         to_string(pass);
                points.push_back({kernel, arch.name, name, problem, config});
                const bool is_v3_pattern =
                    kernel->name == std::string("v3") && problem.has_pattern();
                const int tiles = 8 * number + 4 * static_cast<int>(pass) +
                                  (dropout > 0.0 ? 2 : 0) + (is_v3_pattern ? 1 : 0);
                table.push_back({tiles, arch.compute_capability, head_dim, static_cast<int>(dtype),
                                 static_cast<int>(&mask - kMasks)});
              }
            }
          }
        }
      }
    }
  }
  return {points, table};
}

// Returns units of v3's forward whose consumers load: one function then does everything, and is so
// large that the compiler may call it instead of inlining it.
std::vector<Point> points_without_producer() {
  std::vector<Point> points;
  for (const int head_dim : {64, 128}) {
    Point point = {.kernel = builtin_registry().find("v3", Backend::cuda),
                   .arch = "sm_90a",
                   .name = "v3_without_producer_d" + std::to_string(head_dim),
                   .problem = {.dtype = Dtype::f16,
                               .seqlen_q = 512,
                               .seqlen_k = 512,
                               .head_dim = head_dim,
                               .mask = parse_mask("causal")}};
    point.config = default_config(*point.kernel);
    point.config.set_all({{"block_n", 128}, {"consumers", 2}, {"producer", 0}});
    points.push_back(point);
  }
  return points;
}

// Returns units of v3's backward that sum dQ in a fixed order, an axis that product() leaves alone.
std::vector<Point> points_in_fixed_order() {
  std::vector<Point> points;
  for (const int head_dim : {64, 128, 192, 256}) {
    for (const double dropout : {0.0, 0.1}) {
      for (const char* mask : {"none", "blocks:butterfly:64x64"}) {
        const bool has_pattern = mask != std::string("none");
        const bool is_bf16 = (dropout > 0.0) == has_pattern;
        // Registers are scarcest at 64.
        if (head_dim != 64 && is_bf16) continue;
        Point point = {.kernel = builtin_registry().find("v3", Backend::cuda),
                       .arch = "sm_90a",
                       .name = "v3_in_order_d" + std::to_string(head_dim) +
                               (dropout > 0.0 ? "_dropout" : "") + (has_pattern ? "_blocks" : ""),
                       .problem = {.pass = Pass::bwd,
                                   .dtype = is_bf16 ? Dtype::bf16 : Dtype::f16,
                                   .seqlen_q = 512,
                                   .seqlen_k = 512,
                                   .head_dim = head_dim,
                                   .mask = parse_mask(mask),
                                   .dropout = dropout}};
        point.config = default_config(*point.kernel);
        point.config.set("deterministic", 1);
        points.push_back(point);
      }
    }
  }
  return points;
}

// Returns units of v3's forward on e4m3 that long sequences with one scale a head have.
std::vector<Point> points_of_long_e4m3() {
  std::vector<Point> points;
  for (const int head_dim : {64, 128, 256}) {
    for (const int promote : {0, 1}) {
      for (const char* mask : {"none", "window:8192:0"}) {
        const bool has_window = mask != std::string("none");
        const ScaleOf scale_of_v = has_window ? ScaleOf::channel : ScaleOf::head;
        Point point = {.kernel = builtin_registry().find("v3", Backend::cuda),
                       .arch = "sm_90a",
                       .name = "v3_long_e4m3_d" + std::to_string(head_dim) +
                               (promote > 0 ? "_promoted" : "") + (has_window ? "_left" : ""),
                       .problem = {.dtype = Dtype::e4m3,
                                   .seqlen_q = 16384,
                                   .seqlen_k = 16384,
                                   .head_dim = head_dim,
                                   .mask = parse_mask(mask),
                                   .quantisation = {.qk = ScaleOf::head, .v = scale_of_v}}};
        point.config = default_config(*point.kernel);
        point.config.set("promote", promote);
        points.push_back(point);
      }
    }
  }
  return points;
}

// Returns units of the tiles that attnlab verify asks for under a block pattern, where consumers
// have the fewest registers left.
std::vector<Point> points_of_verified_patterns() {
  std::vector<Point> points;
  for (const Implementation* kernel : builtin_registry().all()) {
    if (kernel->units == nullptr || kernel->configs_to_verify == nullptr) continue;
    for (const ConfigsToVerify& group : kernel->configs_to_verify()) {
      for (const Config& config : group.configs) {
        for (const Pass pass : {Pass::fwd, Pass::bwd}) {
          Point point = {
              .kernel = kernel,
              .arch = "sm_90a",
              .name = std::string(kernel->name) + "_verified_" + std::to_string(points.size()),
              .problem = {.pass = pass,
                          .dtype = group.dtype,
                          .seqlen_q = 512,
                          .seqlen_k = 512,
                          .head_dim = group.head_dim,
                          .mask = parse_mask("blocks:butterfly:16x16"),
                          .dropout = group.dropout,
                          .quantisation = group.quantisation}};
          point.config = default_config(*kernel);
          point.config.set_all(config);
          const Device device = device_of_arch(point.arch);
          if (!kernel->unsupported(point.problem, point.config, device).empty()) continue;
          points.push_back(point);
        }
      }
    }
  }
  return points;
}

std::vector<Point> points_to_compile() {
  auto [points, table] = product();
  std::vector<Point> some = points_without_producer();
  for (const std::vector<Point>& more :
       {points_in_fixed_order(), points_of_long_e4m3(), points_of_verified_patterns()}) {
    some.insert(some.end(), more.begin(), more.end());
  }
  if (std::getenv("ATTNLAB_ALL_UNITS") != nullptr) {
    some.insert(some.end(), points.begin(), points.end());
    return some;
  }
  for (const std::size_t row : pairwise_rows(table)) some.push_back(points[row]);
  return some;
}

// Units come from a cache that all points share and that stays: few are of one point alone.
class CompiledUnits : public testing::TestWithParam<Point> {
 protected:
  void SetUp() override {
    if (const std::string why = cuda::no_compiler(); !why.empty()) GTEST_SKIP() << why;
    set_compiler({.cache_folder = in_build("compile_test_cache")});
  }
  void TearDown() override { set_compiler({}); }
};

TEST_P(CompiledUnits, SpillNothingAndFit) {
  const auto& [kernel, arch, name, problem, config] = GetParam();
  const std::vector<KernelUnit> units = kernel->units(problem, config, device_of_arch(arch));
  EXPECT_FALSE(units.empty());
  for (const KernelUnit& unit : units) {
    SCOPED_TRACE(unit.name + " for " + arch);
    const Compilation made = cuda::compile(unit, arch).compilation;
    ASSERT_EQ(made.entries.size(), unit.entries.size()) << made.error;
    bool is_clean = true;
    for (const CompiledEntry& entry : made.entries) {
      SCOPED_TRACE(entry.entry.name);
      const std::int64_t spilled = entry.spill_store_bytes + entry.spill_load_bytes;
      EXPECT_LE(spilled, known_spill(unit, entry.entry.name, arch));
      EXPECT_GE(entry.blocks_per_multiprocessor, 1);
      is_clean = is_clean && spilled == 0;
    }
    EXPECT_TRUE(made.error.empty() || !is_clean) << made.error;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CompiledUnits, testing::ValuesIn(points_to_compile()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace attnlab
