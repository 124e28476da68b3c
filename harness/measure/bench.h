// Times launches. Google Benchmark runs the samples; rounds, order and stopping rule are here.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/blocks.h"
#include "harness/plan/sweep.h"

namespace attnlab {

// Holds launches to take samples of: a kernel's, a peer's or a load. Competitors are unknown here.
struct TimedLaunches {
  std::string name;
  // Returns the seconds that so many launches take together, once they are done.
  std::function<double(int launches)> time;
  std::function<void()> before = [] {};  // called before each call of a warm-up and sample, untimed
  // These are called around each sample of so many launches, untimed; a throw ends the samples.
  std::function<void(int launches)> prepare = [](int) {};
  std::function<void()> check = [] {};
  // These are called in Regime::settled instead of `time`, unless they are null: `load` right
  // before a sample, with any number of launches, `time_under_load` else. Neither lets the device
  // rest before its launches.
  std::function<double(int launches)> load = nullptr;
  std::function<double(int launches)> time_under_load = nullptr;
  int most_launches = 1 << 20;        // that one call of `time` can take
  std::function<int()> retries = {};  // that `time` has made so far; empty: it does not say
  // Returns the launches that `time_under_load` has made so far beside those asked for.
  std::function<int()> launches_ahead = [] { return 0; };
};

// These steps need the device for themselves, each until the next one begins: the self-test of the
// timer, and those of a measurement. The last, leave, is what comes after them.
enum class TurnStep : std::uint8_t { check_timer, warm_up, sample, leave };

struct Samples {
  std::vector<double> seconds;  // a launch, one sample a round
  std::vector<int> order;       // place in each round, from 0
  int inner_launches = 1;       // launches that each sample is the mean of
  bool are_turns = false;       // of Regime::settled on a GPU
  std::vector<double> at_work;  // of each turn the share in which launches ran
  int rounds_asked = 0;         // fewer samples: max_seconds ended them
  std::optional<int> retries;   // of the clock, within the samples (TimedLaunches::retries)
  double watch_s = 0.0;         // seconds in TimedLaunches::prepare and check
  std::vector<Block> blocks;    // none without telemetry
  std::string why_no_blocks;    // of a telemetry that says nothing
  std::exception_ptr error;     // what time or before threw: no further samples were taken
};

// Warms each up (protocol.warmup_launches and protocol.warmup_seconds; the first 8 launches one by
// one, which show how many make a sample of 1 ms, then so many a call), then takes
// rounds: each round takes one sample of each, in a fresh random order. Ends when all have
// min_rounds samples (of those whose launches take more than 50 ms 10 at most, unless max_rounds is
// the same) and every 95 % interval of the median is within +-interval of it, or after max_rounds.
// Those that have used max_seconds get no further samples; the others go on. `after_round` gets the
// number of rounds done. When one threw DeviceLost nothing else is launched.
//
// protocol.regime says how samples on a GPU are spaced. burst: rests as long as the warm-up took (1
// s at most), and before a sample 4 times as long as the one before and its own `prepare` took.
// settled: warms up for at least 1.5 s in all, and gives the device to each for a turn of
// protocol.turn_seconds: it loads for 70 % of it, then the launches of one sample fill the rest. So
// the heat of whoever came before does not affect a sample.
//
// `telemetry`, if given, is read between samples, never within one: BlockWatch says when.
//
// `take_turn`, if given, returns when the step of the round (0: before the first, or after the
// last) may begin: another process may measure in between.
std::vector<Samples> measure(const std::vector<TimedLaunches>& all, const Protocol& protocol,
                             Backend backend, const std::function<void(int)>& after_round,
                             Telemetry* telemetry = nullptr,
                             const std::function<void(TurnStep, int)>& take_turn = {});

}  // namespace attnlab
