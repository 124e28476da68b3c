// Measures what a launch costs in joules, by the energy counter of its device.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "harness/measure/bench.h"
#include "harness/record/readings.h"

namespace attnlab {

// Holds the counter's reading, and when it was seen to change.
struct EnergyStep {
  double time_s = 0.0;
  double joules = 0.0;
};

// Says how many launches had been done at a time.
struct LaunchMark {
  double time_s = 0.0;
  double launches = 0.0;
};

// Returns the energy from the first to the last step; there must be at least two, all while the
// launches went on. Launches are even between marks (two or more). Throws std::invalid_argument.
EnergyUse energy_between(const std::vector<EnergyStep>& steps, const std::vector<LaunchMark>& marks,
                         double useful_flops);

// Gives the time that passes while energy is measured.
struct EnergyClock {
  std::function<double()> now_s;
  // Waits between two looks at the counter; may end early when the watch is told to stop.
  std::function<void(const std::stop_token&)> pause;
};

// Returns a steady clock, with pauses of 5 ms.
EnergyClock energy_clock();

// Runs `load`, which takes about `launch_s` a launch, until its device's counter has made steps at
// least 1 s apart, in batches of 20 ms (or load.most_launches), one directly after the other;
// a second thread watches the counter meanwhile. load.before is called before each batch and may
// throw. Gives up, with the reason, where there is no counter, or none that moves.
EnergyRecord measure_energy(const TimedLaunches& load, double launch_s, double useful_flops,
                            Telemetry& telemetry, const EnergyClock& clock = energy_clock());

}  // namespace attnlab
