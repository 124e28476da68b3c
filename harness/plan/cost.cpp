#include "harness/plan/cost.h"

#include <algorithm>

#include "harness/plan/accounting.h"

namespace attnlab {
namespace {

// Devices differ, and so do kernels, slow ones among them; what counts is how a launch compares
// with the seconds of a point: inputs, references, and what they take to judge. The untimed
// launches are those that verify and those between samples.
constexpr Pace kPaceOfCpu = {.flops_per_s = 2e10, .point_s = 0.02, .untimed_launches = 8.0};
constexpr Pace kPaceOfGpu = {.flops_per_s = 1e14, .point_s = 0.02, .untimed_launches = 8.0};

const Pace& typical_pace(const Competitor& competitor) {
  return competitor.backend == Backend::cuda ? kPaceOfGpu : kPaceOfCpu;
}

// Returns the seconds of the rounds that every competitor gets.
double timed_seconds(double launch, bool is_gpu, const Protocol& protocol) {
  const double sample = std::max(launch, kLeastSampleSeconds);
  const double with_rests = is_gpu ? 1.0 + kRestsPerBurstSample : 1.0;
  if (is_gpu && protocol.regime == Regime::settled) {
    return protocol.min_rounds * std::max(protocol.turn_seconds, with_rests * sample);
  }
  return std::min(protocol.max_seconds, protocol.min_rounds * sample) * with_rests;
}

}  // namespace

double point_seconds(const Problem& problem, const Competitor& competitor, const Protocol& protocol,
                     const Pace& pace) {
  if (!wants_to_run(competitor)) return 0.0;
  const double launch = static_cast<double>(useful_flops(problem)) / pace.flops_per_s;
  return pace.point_s + protocol.warmup_seconds +
         timed_seconds(launch, competitor.backend == Backend::cuda, protocol) +
         pace.untimed_launches * launch;
}

double case_seconds(const Case& work, const Protocol& protocol, const Pace& pace) {
  double total = 0.0;
  for (const Competitor& competitor : work.competitors) {
    total += point_seconds(work.problem, competitor, protocol, pace);
  }
  return total;
}

double point_weight(const Problem& problem, const Competitor& competitor,
                    const Protocol& protocol) {
  return point_seconds(problem, competitor, protocol, typical_pace(competitor));
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
