#include "harness/session/gate_trial.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/base/errors.h"

namespace attnlab {
namespace {

constexpr int kRoundsOfShare = 200;

// Returns the run with a folder of its own below the run's.
GateRun named(const GateRun& run, const std::string& folder) {
  GateRun copy = run;
  copy.folder = run.folder / folder;
  std::filesystem::create_directories(copy.folder);
  return copy;
}

PlantedShare measure_share(const GateRun& run, const CompareOptions& options) {
  const MeasuredSides sides = measure_sides(run, "-share", kRoundsOfShare, nullptr).front();
  if (!sides.troubles.empty()) throw std::runtime_error(sides.troubles.front());
  const Comparison comparison = compare(sides.base, sides.head, options);
  const TimeChange* least = nullptr;
  std::string trouble = "no point was measured";
  for (const PointChange& point : comparison.points) {
    if (!point.time) trouble = point.trouble;
    if (point.time && (least == nullptr || point.time->ratio < least->ratio)) least = &*point.time;
  }
  if (least == nullptr) {
    throw std::runtime_error("the planted slowdown could not be measured: " + trouble);
  }
  return {.share = least->ratio - 1.0,
          .ratio95 = least->ratio95,
          .counts = least->ratio95.low > 1.0 + least->threshold};
}

}  // namespace

std::vector<SelfTest> self_test(const GateRun& run, const std::vector<Plant>& plants,
                                const CompareOptions& options) {
  const GateRun equal = named(run, "equal");
  std::vector<SelfTest> tests = {{.what = "equal",
                                  .expected = kExitGood,
                                  .code = run_gate(equal, options, nullptr).front().code}};
  for (std::size_t i = 0; i < plants.size(); ++i) {
    GateRun planted = named(run, "plant-" + std::to_string(i + 1));
    planted.head = plants[i].head;
    SelfTest test = {.what = plants[i].what,
                     .planted = measure_share(planted, options),
                     .expected = kExitSlower};
    test.code = run_gate(planted, options, nullptr).front().code;
    tests.push_back(std::move(test));
  }
  return tests;
}

}  // namespace attnlab
