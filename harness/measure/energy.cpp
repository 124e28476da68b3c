#include "harness/measure/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>

namespace attnlab {
namespace {

constexpr double kShortestWindow = 1.0;   // seconds
constexpr double kBatch = 20e-3;          // seconds: waiting for its end costs little
constexpr double kShortestBatch = 10e-3;  // seconds: of less, what lies between is too large a part
constexpr double kLongestWait = 5.0;      // seconds, for steps of the counter
constexpr auto kPollInterval = std::chrono::milliseconds(5);

// Notes the steps of a device's energy counter, in a thread of its own, as long as it lives.
class StepWatch {
 public:
  StepWatch(Telemetry& telemetry, const EnergyClock& clock, double joules)
      : telemetry_(telemetry), clock_(clock), last_(joules) {}

  std::vector<EnergyStep> steps() {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

 private:
  void watch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const std::optional<double> joules = telemetry_.energy_j();
      if (joules && *joules != last_) {
        last_ = *joules;
        const std::lock_guard lock(mutex_);
        steps_.push_back({clock_.now_s(), *joules});
      }
      clock_.pause(stop);
    }
  }

  Telemetry& telemetry_;
  const EnergyClock& clock_;
  double last_;
  std::mutex mutex_;
  std::vector<EnergyStep> steps_;
  // The thread is the last member: so it ends before the others are destroyed.
  std::jthread thread_{[this](const std::stop_token& stop) { watch(stop); }};
};

double launches_at(const std::vector<LaunchMark>& marks, double time_s) {
  const auto after =
      std::ranges::find_if(marks.begin() + 1, marks.end() - 1,
                           [&](const LaunchMark& mark) { return mark.time_s >= time_s; });
  const LaunchMark& to = *after;
  const LaunchMark& from = *(after - 1);
  const double share = (time_s - from.time_s) / (to.time_s - from.time_s);
  return from.launches + share * (to.launches - from.launches);
}

}  // namespace

EnergyUse energy_between(const std::vector<EnergyStep>& steps, const std::vector<LaunchMark>& marks,
                         double useful_flops) {
  if (steps.size() < 2 || marks.size() < 2) {
    throw std::invalid_argument("energy is that between two steps of a counter, of launches");
  }
  const EnergyStep& first = steps.front();
  const EnergyStep& last = steps.back();
  EnergyUse use{.seconds = last.time_s - first.time_s,
                .launches = launches_at(marks, last.time_s) - launches_at(marks, first.time_s),
                .joules = last.joules - first.joules};
  use.joules_per_call = use.joules / use.launches;
  use.mean_power_w = use.joules / use.seconds;
  constexpr double kPico = 1e-12;
  if (useful_flops > 0.0) use.picojoules_per_flop = use.joules_per_call / useful_flops / kPico;
  return use;
}

EnergyClock energy_clock() {
  return {[] {
            const auto now = std::chrono::steady_clock::now().time_since_epoch();
            return std::chrono::duration<double>(now).count();
          },
          [](const std::stop_token&) { std::this_thread::sleep_for(kPollInterval); }};
}

EnergyRecord measure_energy(const TimedLaunches& load, double launch_s, double useful_flops,
                            Telemetry& telemetry, const EnergyClock& clock) {
  if (std::string why = telemetry.why_not(); !why.empty()) return {.reason = std::move(why)};
  const std::optional<double> joules = telemetry.energy_j();
  if (!joules) return {.reason = "the device does not count its energy"};
  const int batch = std::min(
      load.most_launches, static_cast<int>(std::ceil(kBatch / std::clamp(launch_s, 1e-6, kBatch))));
  if (batch == load.most_launches && batch * launch_s < kShortestBatch) {
    return {.reason = fmt::format(
                "its launches are too short: at most {} of them follow one another, and what lies "
                "between would be a large part of the energy",
                batch)};
  }
  const auto run_batch = [&] {
    load.before();
    load.time(batch);
  };
  run_batch();  // the device must be at work when the watch begins
  StepWatch watch(telemetry, clock, *joules);
  std::vector<LaunchMark> marks = {{clock.now_s(), 0.0}};
  for (;;) {
    run_batch();
    const std::vector<EnergyStep> steps = watch.steps();
    marks.push_back({clock.now_s(), marks.back().launches + batch});
    // The first step ends one that began before the launches did.
    if (steps.size() >= 2 && steps.back().time_s - steps.front().time_s >= kShortestWindow) {
      return {.use = energy_between(steps, marks, useful_flops)};
    }
    const double waited = marks.back().time_s - marks.front().time_s;
    if (!(waited < kLongestWait)) {
      return {.reason = fmt::format("the device's energy counter made {} step{} in {:.1f} s",
                                    steps.size(), steps.size() == 1 ? "" : "s", waited)};
    }
  }
}

}  // namespace attnlab
