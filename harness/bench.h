// Timing. Google Benchmark runs the samples; the rounds, the order and the stopping rule are here.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "harness/sweep.h"

namespace attnlab {

inline constexpr const char* kCpuTimer = "steady_clock";

// One thing to time: a launch that returns when its work is done.
struct Contender {
  std::string name;
  std::function<void()> launch;
  std::function<void()> before = [] {};  // called before each warm-up launch and sample, untimed
};

struct Samples {
  std::vector<double> seconds;  // a launch, one sample a round
  std::vector<int> order;       // place in each round, from 0
  int inner_launches = 1;       // launches that each sample is the mean of
  std::exception_ptr error;     // what launch or before threw: no further samples were taken
};

// Warms every contender up (at least one launch and protocol.warmup_seconds; at the same time it
// learns how many launches make a sample of 1 ms), then takes rounds: each round runs every
// contender once, in a fresh random order. Ends when all have min_rounds samples and every 95 %
// interval of the median is within +-interval of it, or after max_rounds. A contender whose timed
// launches have used max_seconds gets no further samples; the others go on. `after_round` gets the
// number of rounds done.
std::vector<Samples> measure(const std::vector<Contender>& contenders, const Protocol& protocol,
                             const std::function<void(int)>& after_round);

}  // namespace attnlab
