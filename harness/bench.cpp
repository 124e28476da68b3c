#include "harness/bench.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "harness/statistics.h"

namespace attnlab {

namespace {

constexpr double kShortestSample = 1e-3;  // seconds: far above the clock's resolution

double seconds_of(int launches, const std::function<void()>& launch) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) launch();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Runner {
  const Contender* contender;
  Samples samples;
  double spent = 0.0;  // seconds in timed launches

  void warm_up(double at_least) try {
    contender->before();
    double fastest = seconds_of(1, contender->launch);
    for (double total = fastest; total < at_least;) {
      contender->before();
      const double duration = seconds_of(1, contender->launch);
      fastest = std::min(fastest, duration);
      total += duration;
    }
    samples.inner_launches =
        static_cast<int>(std::ceil(kShortestSample / std::clamp(fastest, 1e-7, kShortestSample)));
  } catch (...) {
    samples.error = std::current_exception();
  }

  // One sample; `place` is its place in the round. An exception must not cross Google Benchmark.
  double sample(int place) try {
    contender->before();
    const double total = seconds_of(samples.inner_launches, contender->launch);
    spent += total;
    samples.seconds.push_back(total / samples.inner_launches);
    samples.order.push_back(place);
    return samples.seconds.back();
  } catch (...) {
    samples.error = std::current_exception();
    return 0.0;
  }

  bool active(const Protocol& protocol) const {
    return samples.error == nullptr && (samples.seconds.empty() || spent < protocol.max_seconds);
  }

  bool settled(const Protocol& protocol) const {
    const Interval interval = median_interval95(samples.seconds);
    return (interval.high - interval.low) / 2 <= protocol.interval * median(samples.seconds);
  }
};

// The samples are in the closures; a reporter would only see sums.
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

// Google Benchmark shuffles all repetitions of all registered benchmarks in one bag, so a batch has
// one repetition of each: that makes it a round, in which every contender runs exactly once.
void run_round(const std::vector<Runner*>& runners) {
  int place = 0;
  for (Runner* runner : runners) {
    benchmark::RegisterBenchmark(runner->contender->name.c_str(),
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

std::vector<Samples> measure(const std::vector<Contender>& contenders, const Protocol& protocol,
                             const std::function<void(int)>& after_round) {
  initialize_once();
  std::vector<Runner> runners;
  for (const Contender& contender : contenders) {
    runners.push_back({.contender = &contender});
    runners.back().warm_up(protocol.warmup_seconds);
  }
  for (int round = 1; round <= protocol.max_rounds; ++round) {
    std::vector<Runner*> active;
    for (Runner& runner : runners) {
      if (runner.active(protocol)) active.push_back(&runner);
    }
    if (active.empty()) break;
    run_round(active);
    after_round(round);
    if (round >= protocol.min_rounds && std::ranges::all_of(active, [&](const Runner* runner) {
          return runner->samples.error != nullptr || runner->settled(protocol);
        })) {
      break;
    }
  }
  std::vector<Samples> result;
  result.reserve(runners.size());
  for (Runner& runner : runners) result.push_back(std::move(runner.samples));
  return result;
}

}  // namespace attnlab
