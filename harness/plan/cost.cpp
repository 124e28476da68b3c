#include "harness/plan/cost.h"

#include <algorithm>

#include "harness/plan/accounting.h"

namespace attnlab {
namespace {

// Useful FLOPs a second that launches typically reach, those of slow kernels among them. Devices
// differ, and so do kernels; what counts is how a launch compares with the seconds below.
constexpr double kRateOfCpu = 2e10;
constexpr double kRateOfGpu = 1e14;
constexpr double kPointSeconds = 0.02;    // inputs, references, and what they take to judge
constexpr double kUntimedLaunches = 8.0;  // those that verify and those between samples

// Seconds of the rounds that every competitor gets.
double timed_seconds(double launch, bool is_gpu, const Protocol& protocol) {
  if (is_gpu && protocol.regime == Regime::settled) {
    return protocol.min_rounds * protocol.turn_seconds;
  }
  const double samples = protocol.min_rounds * std::max(launch, kLeastSampleSeconds);
  return std::min(protocol.max_seconds, samples) * (is_gpu ? 1.0 + kRestsPerBurstSample : 1.0);
}

}  // namespace

double point_weight(const Problem& problem, const Competitor& competitor,
                    const Protocol& protocol) {
  if (!wants_to_run(competitor)) return 0.0;
  const bool is_gpu = competitor.backend == Backend::cuda;
  const double launch =
      static_cast<double>(useful_flops(problem)) / (is_gpu ? kRateOfGpu : kRateOfCpu);
  return kPointSeconds + protocol.warmup_seconds + timed_seconds(launch, is_gpu, protocol) +
         kUntimedLaunches * launch;
}

double case_weight(const Case& work, const Protocol& protocol) {
  double total = 0.0;
  for (const Competitor& competitor : work.competitors) {
    total += point_weight(work.problem, competitor, protocol);
  }
  return total;
}

double case_weight(const std::vector<Case>& cases, const Protocol& protocol) {
  double total = 0.0;
  for (const Case& work : cases) total += case_weight(work, protocol);
  return total;
}

}  // namespace attnlab
