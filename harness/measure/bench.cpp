#include "harness/measure/bench.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "harness/base/statistics.h"
#include "harness/plan/protocol.h"
#include "kernels/api/ranges.h"
#include "kernels/api/runtime.h"

namespace attnlab {

namespace {

constexpr double kLongLaunch = 50e-3;  // seconds: from here on kRoundsOfLongLaunches are enough
constexpr int kRoundsOfLongLaunches = 10;
constexpr int kFirstLaunches = 8;  // of a warm-up, one by one

// These belong to a GPU's regimes (bench.h).
constexpr double kLongestRest = 1.0;
constexpr double kSettledWarmup = 1.5;
constexpr double kLoadOfTurn = 0.7;     // share of a turn before its sample
constexpr double kSettledCall = 20e-3;  // seconds: beside it the pause between calls is small
constexpr double kLoadCall = 100e-3;    // seconds: where nothing is timed, it may be smaller

void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

bool is_lost(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const DeviceLost&) {
    return true;
  } catch (...) {  // the device is still there
  }
  return false;
}

// Returns how many launches last at least so long.
int launches_of(double seconds, double launch_seconds) {
  return static_cast<int>(std::ceil(seconds / std::clamp(launch_seconds, 1e-7, seconds)));
}

// Holds when a turn of Regime::settled began, and TimedLaunches::launches_ahead then.
struct Turn {
  int ahead = 0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

class Runner {
 public:
  Runner(const TimedLaunches& timed, const Protocol& protocol, Backend backend,
         Telemetry* telemetry, const std::function<void(TurnStep)>& take_turn)
      : timed_(&timed),
        protocol_(&protocol),
        is_gpu_(backend == Backend::cuda),
        watch_(telemetry),
        take_turn_(&take_turn) {
    samples.are_turns = is_gpu_ && protocol.regime == Regime::settled;
  }

  Samples samples;

  const std::string& name() const { return timed_->name; }

  // Returns how long it took. A few single launches say how many a call takes; the rest of the
  // warm-up are such calls: they are load for a GPU, while single launches mostly wait for the
  // host.
  double warm_up(double at_least) try {
    const ProfilerRange range("warm up");
    double fastest = launch_once();
    double total = fastest;
    for (int n = 1; n < protocol_->warmup_launches || (n < kFirstLaunches && total < at_least);
         ++n) {
      const double duration = launch_once();
      fastest = std::min(fastest, duration);
      total += duration;
    }
    plan_sample(fastest);
    while (total < at_least) {
      timed_->before();
      const double duration = launch(launches_a_call_);
      fastest = std::min(fastest, duration / launches_a_call_);
      total += duration;
    }
    plan_sample(fastest);
    return total;
  } catch (...) {
    samples.error = std::current_exception();
    return 0.0;
  }

  // Takes one sample at `place` of the round. An exception must not cross Google Benchmark.
  double sample(int place) try {
    (*take_turn_)(TurnStep::sample);
    const double prepared = watch("prepare", [&] { timed_->prepare(samples.inner_launches); });
    double around = 0.0;  // seconds of what belongs to the sample and is not timed
    if (is_gpu_ && protocol_->regime == Regime::burst) {
      around = std::min(kLongestRest, kRestsPerBurstSample * (last_ + prepared));
      rest(around);
    }
    timed_->before();
    const Turn turn = {.ahead = timed_->launches_ahead()};
    if (samples.are_turns) around = load();
    const int retries = timed_->retries ? timed_->retries() : 0;
    last_ = 0.0;
    for (int call = 0; call < calls_; ++call) last_ += launch(launches_a_call_);
    if (samples.are_turns) samples.at_work.push_back(share_at_work(turn));
    if (timed_->retries) {
      samples.retries = samples.retries.value_or(0) + timed_->retries() - retries;
    }
    watch_.add_sample(around + last_);
    watch("check", timed_->check);
    spent_ += last_;
    samples.seconds.push_back(last_ / samples.inner_launches);
    samples.order.push_back(place);
    return samples.seconds.back();
  } catch (...) {
    samples.error = std::current_exception();
    return 0.0;
  }

  bool active() const {
    return samples.error == nullptr && (samples.seconds.empty() || spent_ < protocol_->max_seconds);
  }

  // Returns the samples, once there are no more to come.
  Samples finish() {
    samples.blocks = watch_.finish();
    if (!samples.seconds.empty()) samples.rounds_asked = rounds_asked();
    return std::move(samples);
  }

  // Returns whether it needs no further sample after `round` rounds.
  bool done(int round) const {
    if (samples.error != nullptr) return true;
    if (round < rounds_asked()) return false;
    const Interval interval = median_interval95(samples.seconds);
    return (interval.high - interval.low) / 2 <= protocol_->interval * median(samples.seconds);
  }

 private:
  // Returns the fewest rounds. Where minimum and maximum are one number, that number is meant.
  int rounds_asked() const {
    const bool is_exact = protocol_->min_rounds == protocol_->max_rounds;
    const bool is_long = !is_exact && median(samples.seconds) > kLongLaunch;
    return is_long ? std::min(kRoundsOfLongLaunches, protocol_->min_rounds) : protocol_->min_rounds;
  }

  // Says how many launches a sample is of, and how many calls of `time` make them.
  void plan_sample(double launch_seconds) {
    const double shortest = samples.are_turns ? kSettledCall : kLeastSampleSeconds;
    launches_a_call_ = std::min(timed_->most_launches, launches_of(shortest, launch_seconds));
    launches_a_load_ = launches_of(kLoadCall, launch_seconds);
    if (samples.are_turns) {
      const double call_seconds = launch_seconds * launches_a_call_;
      const double timed = (1.0 - kLoadOfTurn) * protocol_->turn_seconds;
      calls_ = static_cast<int>(std::ceil(timed / std::max(call_seconds, 1e-6)));
    }
    samples.inner_launches = launches_a_call_ * calls_;
  }

  double launch_once() {
    timed_->before();
    return launch(1);
  }

  // Returns how long it took.
  double watch(const char* what, const std::function<void()>& step) {
    const ProfilerRange range(what);
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    samples.watch_s += taken.count();
    return taken.count();
  }

  // Returns how long it took.
  double load() {
    const ProfilerRange range("load");
    double total = 0.0;
    const auto& loaded = timed_->load ? timed_->load : timer();
    const double load = kLoadOfTurn * protocol_->turn_seconds;
    const int launches = timed_->load ? launches_a_load_ : launches_a_call_;
    for (loaded_ = 0; total < load; loaded_ += launches) total += launch(loaded, launches);
    return total;
  }

  // Returns in which share of a turn that ends now launches ran. Each counts as long as one of the
  // sample: what a call of several is said to take may contain waits for the host.
  double share_at_work(const Turn& turn) const {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - turn.start;
    const int launches = loaded_ + samples.inner_launches + timed_->launches_ahead() - turn.ahead;
    return std::min(1.0, launches * last_ / samples.inner_launches / taken.count());
  }

  const std::function<double(int)>& timer() const {
    return samples.are_turns && timed_->time_under_load ? timed_->time_under_load : timed_->time;
  }

  double launch(int launches) const { return launch(timer(), launches); }

  // Returns the seconds of the launches. The profiler's range lies outside of what is timed.
  double launch(const std::function<double(int)>& launched, int launches) const {
    const ProfilerRange range(name());
    return launched(launches);
  }

  const TimedLaunches* timed_;
  const Protocol* protocol_;
  bool is_gpu_;
  BlockWatch watch_;
  const std::function<void(TurnStep)>* take_turn_;
  int launches_a_call_ = 1;  // of TimedLaunches::time
  int calls_ = 1;            // of a sample
  int launches_a_load_ = 1;  // of TimedLaunches::load
  int loaded_ = 0;           // launches of the last load
  double last_ = 0.0;        // seconds of the last sample, all its launches
  double spent_ = 0.0;       // seconds in timed launches
};

// Reports nothing: the closures keep the samples, of which a reporter would only see sums.
class SilentReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    char program[] = "attnlab";
    char interleave[] = "--benchmark_enable_random_interleaving=true";
    char* arguments[] = {program, interleave, nullptr};
    int count = 2;
    benchmark::Initialize(&count, arguments);
  });
}

// Runs one round. Google Benchmark shuffles all repetitions of all registered benchmarks together,
// so a batch has one repetition of each: that makes it a round, in which each runs exactly once.
void run_round(const std::vector<Runner*>& runners) {
  int place = 0;
  for (Runner* runner : runners) {
    benchmark::RegisterBenchmark(runner->name().c_str(),
                                 [runner, &place](benchmark::State& state) {
                                   for ([[maybe_unused]] auto iteration : state) {
                                     state.SetIterationTime(runner->sample(place++));
                                   }
                                 })
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(1);
  }
  SilentReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, ".");
  benchmark::ClearRegisteredBenchmarks();
}

}  // namespace

std::vector<Samples> measure(const std::vector<TimedLaunches>& all, const Protocol& protocol,
                             Backend backend, const std::function<void(int)>& after_round,
                             Telemetry* telemetry,
                             const std::function<void(TurnStep, int)>& take_turn) {
  initialize_once();
  int round_of_turn = 0;
  const std::function<void(TurnStep)> take = [&](TurnStep step) {
    if (take_turn) take_turn(step, round_of_turn);
  };
  const std::string why_no_blocks = telemetry == nullptr ? "" : telemetry->why_not();
  if (!why_no_blocks.empty()) telemetry = nullptr;
  std::vector<Runner> runners;
  for (const TimedLaunches& timed : all) {
    runners.emplace_back(timed, protocol, backend, telemetry, take);
  }
  const auto any_lost = [&] {
    return std::ranges::any_of(runners,
                               [](const Runner& runner) { return is_lost(runner.samples.error); });
  };
  const bool settles = backend == Backend::cuda && protocol.regime == Regime::settled;
  const double warmup =
      settles ? std::max(protocol.warmup_seconds, kSettledWarmup / static_cast<double>(all.size()))
              : protocol.warmup_seconds;
  take(TurnStep::warm_up);
  double warmed_up = 0.0;
  for (Runner& runner : runners) {
    if (!any_lost()) warmed_up += runner.warm_up(warmup);
  }
  if (backend == Backend::cuda && protocol.regime == Regime::burst) {
    rest(std::min(kLongestRest, warmed_up));
  }
  for (int round = 1; round <= protocol.max_rounds && !any_lost(); ++round) {
    std::vector<Runner*> active;
    for (Runner& runner : runners) {
      if (runner.active()) active.push_back(&runner);
    }
    if (active.empty()) break;
    round_of_turn = round;
    run_round(active);
    after_round(round);
    if (std::ranges::all_of(active, [&](const Runner* runner) { return runner->done(round); })) {
      break;
    }
  }
  round_of_turn = 0;
  take(TurnStep::leave);
  std::vector<Samples> result;
  result.reserve(runners.size());
  for (Runner& runner : runners) {
    result.push_back(runner.finish());
    result.back().why_no_blocks = why_no_blocks;
  }
  return result;
}

}  // namespace attnlab
