// Holds every registered implementation to all that `attnlab verify` checks. A test is a group of
// checks and runs all kernels, for which inputs and oracle are made once: the oracle is the larger
// part of the time. Which kernel failed stands first in a failure's name.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <set>
#include <string>

#include "harness/verify/verify.h"
#include "kernels/api/registry.h"

namespace attnlab {
namespace {

using verify::Outcome;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kLongest = 513;  // sanitizers make the oracle ten times slower
constexpr int kRandom = 4;
constexpr int kRepeat = 5;
#else
constexpr std::int64_t kLongest = verify::kLongestSeqlen;
constexpr int kRandom = 64;
constexpr int kRepeat = verify::kDefaultRepeat;
#endif

struct Group {
  const char* name;
  const char* only;
  std::set<std::string> kernels = {};  // that it is for; empty: for all
};

void PrintTo(const Group& group, std::ostream* out) { *out << group.only; }  // in ctest's names

// They are all checks: a part that is added without its group fails EveryCheckHasAGroup.
const Group kGroups[] = {
    {"OddLengths", "*/shapes/lengths/*"},
    {"UnequalLengthsUnderEveryMask", "*/shapes/unequal/*"},
    {"BlockPatterns", "*/shapes/blocks/*"},
    {"Dropout", "*/shapes/dropout/*"},
    {"PackedBatches", "*/shapes/packed/*"},
    {"EveryHeadDim", "*/shapes/head_dim/*"},
    {"HeadsBatchesAndLayouts", "*/shapes/heads/*"},
    {"MoreItemsThanPlaces", "*/shapes/items/*"},
    {"ManyEntries", "*/shapes/entries/*"},
    {"Scales", "*/shapes/scale/*"},
    {"KindsOfInputs", "*/shapes/inputs/*"},
    {"FarFromTheBeginning", "*/shapes/far/*"},
    {"EveryTileSize", "*/shapes/tiles*"},
    {"ManyTiles", "*/shapes/many-tiles*"},
    {"EveryInstructionSet", "*/shapes/isa/*"},
    {"E4m3", "*/shapes/e4m3/*", {"naive", "v3"}},
    {"RandomProblems", "*/random/*"},
    {"PropertiesF32", "*/properties/*/f32*"},
    {"PropertiesF16", "*/properties/*/f16*"},
    {"PropertiesBF16", "*/properties/*/bf16*"},
    {"PropertiesE4m3", "*/properties/*/e4m3", {"naive", "v3"}},
    {"Repeats", "*/repeats/*"},
};

const Device& cpu() {
  static const Device device = available_devices().back();
  return device;
}

verify::Options options_of(const std::string& only) {
  const auto all = builtin_registry().all();
  verify::Options options{
      .device = &cpu(), .random = kRandom, .repeat = kRepeat, .only = only, .longest = kLongest};
  std::ranges::copy_if(all, std::back_inserter(options.kernels), [](const Implementation* kernel) {
    return kernel->backend == Backend::cpu;
  });
  return options;
}

class Conformance : public testing::TestWithParam<Group> {};

INSTANTIATE_TEST_SUITE_P(Every, Conformance, testing::ValuesIn(kGroups),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(Conformance, Kernel) {
  std::set<std::string> passed, asked;
  for (const verify::Result& result : verify::verify(options_of(GetParam().only))) {
    asked.insert(result.kernel);
    if (result.outcome == Outcome::passed) passed.insert(result.kernel);
    EXPECT_NE(result.outcome, Outcome::failed)
        << result.name << " caught by " << result.check << "\n"
        << result.message << "\n"
        << result.repro;
  }
  const std::set<std::string>& kernels = GetParam().kernels;
  if (kernels.empty()) {
    EXPECT_EQ(asked.size(), options_of("").kernels.size()) << "a kernel was forgotten";
  } else {
    EXPECT_EQ(asked, kernels);
  }
  // A kernel that has neither tiles nor 16-bit types nor a backward may skip a whole group; the
  // others may not.
  for (const char* kernel : {"v1", "v2", "v3"}) {
    EXPECT_EQ(passed.contains(kernel), asked.contains(kernel)) << kernel;
  }
}

// Covers everything that verify() would do with all kernels, by name.
TEST(ConformanceGroups, EveryCheckHasAGroup) {
  std::set<std::string> used;
  for (const std::string& name : verify::list(options_of(""))) {
    int groups = 0;
    for (const Group& group : kGroups) {
      if (!verify::matches_glob(group.only, name)) continue;
      ++groups;
      used.insert(group.name);
    }
    EXPECT_EQ(groups, 1) << name;
  }
  EXPECT_EQ(used.size(), std::size(kGroups)) << "a group has no check";
}

}  // namespace
}  // namespace attnlab
