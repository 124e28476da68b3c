#include "harness/plan/sweep_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/plan/axes.h"
#include "harness/testing/sweep_axes.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

const Device kCpu;
const Device kCuda = {.backend = Backend::cuda};

// Returns a sweep file with these further lines after its schema and name.
std::string with(const std::string& rest) {
  return R"({"schema": "attnlab.sweep/1", "name": "n", )" + rest + "}";
}

Sweep read(const std::string& text) {
  const TestFile file(".json", text);
  return read_sweep(file.path(), builtin_registry());
}

std::string error_of(const std::string& text) {
  const TestFile file(".json", text);
  const std::string error = usage_error([&] { read_sweep(file.path(), builtin_registry()); });
  EXPECT_PRED2(starts_with, error, file.path().string() + ": ") << text;
  return error;
}

TEST(ReadSweep, ReadsEveryKey) {
  const Sweep sweep = read(with(R"("description": "d", "backend": "cpu",
      "axes": {"seqlen": ["512:1024:x2", 64], "mask": "none,causal", "heads": 4, "dropout": 0.5,
               "kernel": ["naive"], "block": ["16x32"], "seed": [1, 2]},
      "exclude": [{"where": {"kernel": "naive", "seqlen": [64]}, "reason": "why not"}],
      "protocol": {"min_rounds": 3, "max_rounds": 4, "max_seconds": 2, "interval": 0.01,
                   "warmup_seconds": 0, "verify_multiply_adds": 1000, "verify_seconds": 2.5})"));
  EXPECT_EQ(sweep.name, "n");
  EXPECT_EQ(sweep.description, "d");
  EXPECT_EQ(sweep.backend, BackendChoice::cpu);
  ASSERT_EQ(sweep.axes.size(), 1u);
  const Axes& axes = sweep.axes.front();
  EXPECT_EQ(axes.seqlen, (std::vector<std::int64_t>{512, 1024, 64}));
  EXPECT_EQ(axes.mask, (std::vector<MaskSpec>{parse_mask("none"), parse_mask("causal")}));
  EXPECT_EQ(axes.heads, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(axes.dropout, (std::vector<double>{0.5}));
  EXPECT_EQ(axes.kernel, (Texts{"naive"}));
  EXPECT_EQ(axes.block, (std::vector<std::pair<std::int64_t, std::int64_t>>{std::pair(16, 32)}));
  EXPECT_EQ(axes.seed, (std::vector<std::uint64_t>{1u, 2u}));
  ASSERT_EQ(sweep.exclude.size(), 1u);
  EXPECT_EQ(sweep.exclude[0].reason, "why not");
  EXPECT_EQ(sweep.exclude[0].where[1].first, "seqlen");
  EXPECT_EQ(sweep.exclude[0].where[1].second, (Texts{"64"}));
  EXPECT_EQ(sweep.protocol, (ProtocolSettings{.min_rounds = 3,
                                              .max_rounds = 4,
                                              .max_seconds = 2.0,
                                              .interval = 0.01,
                                              .warmup_seconds = 0.0,
                                              .verify_seconds = 2.5,
                                              .verify_multiply_adds = 1000}));
}

TEST(ReadSweep, AnArrayOfAxesIsAUnionOfProducts) {
  Sweep sweep = read(with(R"("axes": [{"seqlen": 8}, {"dropout": 0.5, "heads": 2}])"));
  ASSERT_EQ(sweep.axes.size(), 2u);
  EXPECT_EQ(sweep.axes[0].seqlen, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(sweep.axes[1].dropout, (std::vector<double>{0.5}));
  EXPECT_EQ(sweep.axes[1].seqlen, std::vector<std::int64_t>());
  set_axis(sweep, "heads", "4", "--heads");
  for (const Axes& axes : sweep.axes) EXPECT_EQ(axes.heads, (std::vector<std::int64_t>{4}));
}

TEST(ReadSweep, NamesFileAndKey) {
  const std::pair<std::string, const char*> cases[] = {
      {with(R"("axes": {"seqlne": 4})"), "axes: unknown axis 'seqlne'; did you mean 'seqlen'?"},
      {with(R"("axis": {}, "axes": {})"), "unknown key 'axis'; did you mean 'axes'?"},
      {with(R"("axes": {}, "protocol": {"min_round": 3})"),
       "protocol: unknown key 'min_round'; did you mean 'min_rounds'?"},
      {with(R"("axes": {"seqlen": 0})"), "axes.seqlen: 0 is outside"},
      {with(R"("axes": {"seqlen": 64.5})"), "axes.seqlen: '64.5' is not a whole number"},
      {with(R"("axes": {"seqlen": true})"), "axes.seqlen: must be a number, a string or an array"},
      {with(R"("axes": {"seqlen": null})"), "axes.seqlen: must be"},
      {with(R"("axes": {"seqlen": []})"), "axes.seqlen: must not be empty"},
      {with(R"("axes": {"seqlen": [[1]]})"), "axes.seqlen: must not hold an array in an array"},
      {with(R"("axes": {"seqlen": [64, 64]})"), "axes.seqlen: 64 is given twice"},
      {with(R"("axes": {"seqlen": ["", 64]})"), "axes.seqlen: a value is missing"},
      {with(R"("axes": {"seqlen": [64, ""]})"), "axes.seqlen: a value is missing"},
      {with(R"("axes": {"seqlen": "64,"})"), "axes.seqlen: a value is missing"},
      {with(R"("axes": {"mask": 3})"), "axes.mask: mask '3'"},
      {with(R"("axes": {"heads": 1, "heads": 2})"), "key 'heads' is given twice"},
      {with(R"("axes": 3)"), "axes: must be an object"},
      {with(R"("axes": [])"), "axes: must not be empty"},
      {with(R"("axes": [{}, {"seqlne": 4}])"), "axes[1]: unknown axis 'seqlne'"},
      {with(R"("axes": [{}, {"seqlen": 0}])"), "axes[1].seqlen: 0 is outside"},
      {with(R"("axes": {}, "backend": "gpu")"), "backend: 'gpu' is not a backend"},
      {with(R"("axes": {}, "backend": 1)"), "backend: must be a string"},
      {with(R"("axes": {}, "exclude": {})"), "exclude: must be an array"},
      {with(R"("axes": {}, "exclude": [{"reason": "r"}])"), "exclude[0]: key 'where' is missing"},
      {with(R"("axes": {}, "exclude": [{"where": {"seqlen": 4}}])"),
       "exclude[0]: key 'reason' is missing"},
      {with(R"("axes": {}, "exclude": [{"where": {}, "reason": "r"}])"),
       "exclude[0].where: must be"},
      {with(R"("axes": {}, "exclude": [{"where": {"sqlen": 4}, "reason": "r"}])"),
       "exclude[0].where: unknown axis 'sqlen'"},
      {with(R"("axes": {}, "exclude": [{"where": {"seqlen": "x"}, "reason": "r"}])"),
       "exclude[0].where.seqlen: 'x' is not a whole number"},
      {with(R"("axes": {}, "protocol": {"min_rounds": 0})"), "protocol.min_rounds: 0 is outside"},
      {with(R"("axes": {}, "protocol": {"min_rounds": 2.5})"),
       "protocol.min_rounds: must be a whole number"},
      {with(R"("axes": {}, "protocol": {"min_rounds": 9, "max_rounds": 8})"),
       "protocol.max_rounds: 8 is below min_rounds = 9"},
      {with(R"("axes": {}, "protocol": {"max_seconds": -1})"),
       "protocol.max_seconds: -1 is outside"},
      {with(R"("axes": {}, "protocol": {"interval": "small"})"),
       "protocol.interval: must be a number"},
      {with(R"("description": "no axes")"), "key 'axes' is missing"},
      {R"({"schema": "attnlab.sweep/2", "name": "n", "axes": {}})", "schema: \"attnlab.sweep/2\""},
      {R"({"schema": "attnlab.sweep/1", "name": "a b", "axes": {}})", "name: 'a b'"},
      {R"({"schema": "attnlab.sweep/1", "name": "", "axes": {}})", "name: must not be empty"},
      {"[]", "must be an object"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_PRED2(contains, error_of(text), message) << text;
  }
}

TEST(ReadSweep, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_PRED2(contains, error_of("{\n  \"schema\": \"attnlab.sweep/1\",\n  \"name\" 1\n}"),
               "not JSON: line 3, column 10");
  EXPECT_PRED2(contains, error_of("{\"axes\": {\"dropout\": NaN}}"), "not JSON: line 1, column 22");
  EXPECT_PRED2(contains, error_of("{\"a\": 1e999}"), "not JSON");
  EXPECT_PRED2(contains, error_of(""), "not JSON: line 1");
  // If the zero byte were taken for the end of the text, it would hide what follows.
  EXPECT_PRED2(contains, error_of(with(R"("axes": {})") + std::string(1, '\0') + "x"), "zero byte");
}

TEST(ReadSweep, DeepNestingIsRefusedNotFollowed) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_PRED2(contains, error_of(with(R"("axes": )" + deep)), "nested deeper");
}

TEST(ReadSweep, SuggestsAFileOfNearlyThatName) {
  const TestFile file(".json", "{}");
  std::filesystem::path wrong = file.path();
  wrong.replace_extension(".jsn");
  EXPECT_PRED2(contains, usage_error([&] { read_sweep(wrong, builtin_registry()); }),
               fmt::format("did you mean '{}'?", file.path().string()));
}

TEST(ReadSweep, MoreMinimumRoundsRaiseTheDefaultMaximum) {
  const Sweep sweep = read(with(R"("axes": {}, "protocol": {"min_rounds": 500})"));
  EXPECT_EQ(resolve(sweep.protocol, kCpu).max_rounds, 500);
}

TEST(Protocol, TheBackendFillsInWhatASweepLeavesOpen) {
  const Protocol cpu = resolve({}, kCpu);
  EXPECT_EQ(cpu, Protocol());
  const Device three = {.threads = 3};
  EXPECT_EQ(resolve({}, three).verify_multiply_adds, 3 * kOracleRate);
  EXPECT_EQ(resolve({.verify_multiply_adds = 99}, three).verify_multiply_adds, 99);
  EXPECT_EQ(resolve({.verify_seconds = 2.5}, kCuda).verify_seconds, 2.5);
  const Protocol cuda = resolve({}, kCuda);
  EXPECT_EQ(cuda.min_rounds, 30);
  EXPECT_EQ(cuda.warmup_launches, 10);
  EXPECT_EQ(cuda.warmup_seconds, 0.5);
  const ProtocolSettings settings = {.min_rounds = 3, .cache = CacheState::cold};
  const Protocol mixed = resolve(settings, kCuda);
  EXPECT_EQ(mixed.min_rounds, 3);
  EXPECT_EQ(mixed.warmup_launches, 10);
  EXPECT_EQ(mixed.cache, CacheState::cold);
}

TEST(Protocol, FewerRoundsAtMostLowerTheLeast) {
  EXPECT_EQ(resolve({.max_rounds = 5}, kCuda).min_rounds, 5);
}

TEST(Protocol, TurnsAreOfASettledGpu) {
  const Protocol protocol = resolve({.turn_seconds = 2.0, .regime = Regime::settled}, kCuda);
  EXPECT_EQ(protocol.turn_seconds, 2.0);
  EXPECT_EQ(protocol.min_rounds, 7);
  EXPECT_EQ(protocol.max_rounds, 15);
  EXPECT_EQ(to_string(protocol, kCuda), "regime=settled,turn_seconds=2");
  EXPECT_PRED2(contains, usage_error([] { resolve({.turn_seconds = 2.0}, kCuda); }),
               "protocol.turn_seconds: a burst has no turns");
}

TEST(Protocol, ColdCachesAreForGpus) {
  EXPECT_PRED2(contains, usage_error([] { resolve({.cache = CacheState::cold}, kCpu); }),
               "protocol.cache: cold is measured on GPUs only");
}

TEST(SetProtocol, TakesTheKeysOfAFile) {
  Sweep sweep;
  sweep.protocol.max_seconds = 2.5;
  set_protocol(sweep, "min_rounds=3,interval=0.25,verify_multiply_adds=10,verify_seconds=2",
               "--protocol");
  const Protocol protocol = resolve(sweep.protocol, kCpu);
  EXPECT_EQ(to_string(protocol, kCpu),
            "min_rounds=3,max_seconds=2.5,interval=0.25,verify_multiply_adds=10,verify_seconds=2");
  Sweep again;
  set_protocol(again, to_string(protocol, kCpu), "--protocol");
  EXPECT_EQ(resolve(again.protocol, kCpu), protocol);
  EXPECT_EQ(to_string(Protocol(), kCpu), "");
}

TEST(SetProtocol, TakesWords) {
  Sweep sweep;
  set_protocol(sweep, "cache=cold,regime=settled,warmup_launches=3", "--protocol");
  const Protocol protocol = resolve(sweep.protocol, kCuda);
  EXPECT_EQ(protocol.cache, CacheState::cold);
  EXPECT_EQ(protocol.regime, Regime::settled);
  EXPECT_EQ(to_string(protocol, kCuda), "warmup_launches=3,cache=cold,regime=settled");
}

TEST(SetProtocol, RefusesWithARemedy) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "--protocol: '' is not KEY=VALUE"},
      {"min_rounds", "'min_rounds' is not KEY=VALUE, like min_rounds=3 or cache=cold"},
      {"min_rounds=", "'min_rounds=' is not KEY=VALUE"},
      {"min_round=3", "unknown key 'min_round'; did you mean 'min_rounds'?"},
      {"min_rounds=0", "min_rounds: 0 is outside"},
      {"min_rounds=many", "min_rounds"},
      {"cache=warm", R"(cache: "warm" is not hot or cold)"},
      {"min_rounds=3,max_rounds=2", "max_rounds: 2 is below min_rounds = 3"},
      {"min_rounds=3,min_rounds=4", "min_rounds is given twice"},
  };
  for (const auto& one : cases) {
    Sweep sweep;
    const auto set = [&] { set_protocol(sweep, one.first, "--protocol"); };
    EXPECT_PRED2(contains, usage_error(set), one.second);
  }
}

TEST(ReadSweep, ShippedSweepsAreValid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(in_tree("sweeps"))) {
    if (!is_sweep_name(entry.path())) continue;
    ++count;
    const Sweep sweep = read_sweep(entry.path(), builtin_registry());
    EXPECT_EQ(sweep.name, entry.path().stem().string());
    EXPECT_NE(sweep.description, "") << entry.path();
  }
  EXPECT_GE(count, 2);
}

}  // namespace
}  // namespace attnlab
