// What a launch costs in joules, from the energy counter of its device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/measure/bench.h"
#include "harness/record/readings.h"

namespace attnlab {

// The counter's reading when it was seen to change.
struct EnergyStep {
  double time_s = 0.0;
  double joules = 0.0;
};

// How many launches had been done.
struct LaunchMark {
  double time_s = 0.0;
  double launches = 0.0;
};

// From the first to the last step; at least two, all while the launches went on. Between marks, of
// which there are at least two, launches follow one another evenly. Throws std::invalid_argument.
EnergyUse energy_between(const std::vector<EnergyStep>& steps, const std::vector<LaunchMark>& marks,
                         double useful_flops);

// Runs `load`, which takes about `launch_s` a launch, until its device's counter has made steps at
// least 1 s apart, in batches of 20 ms (or load.most_launches), one directly after the other;
// a second thread watches the counter meanwhile. load.before is called before each batch and may
// throw. Gives up, with the reason, where there is no counter, or none that moves.
EnergyRecord measure_energy(const TimedLaunches& load, double launch_s, double useful_flops,
                            Telemetry& telemetry);

}  // namespace attnlab
