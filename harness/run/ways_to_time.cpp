#include "harness/run/ways_to_time.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "harness/plan/accounting.h"
#include "harness/run/output_watch.h"

namespace attnlab {
namespace {

// More would fill a GPU's queue: it has a thousand places, and a launch may be a dozen kernels.
constexpr int kMostQueuedLaunches = 50;
constexpr int kMostHostLaunches = 1 << 20;

// Launches a competitor on one set of inputs after the other, from sample to sample.
class RotatingLaunches {
 public:
  RotatingLaunches(const CompetitorRun& run, std::vector<Tensors> sets, Runtime& runtime)
      : run_(run), sets_(std::move(sets)), runtime_(runtime) {
    for (const Tensors& set : sets_) {
      spare_sets_.push_back(run.spare ? run.spare->attach(set) : set);
    }
  }

  void launch_next() { launch_next_of(sets_); }
  // Launches it onto the competitor's spare outputs, if it has some.
  void launch_spare() { launch_next_of(spare_sets_); }

 private:
  void launch_next_of(const std::vector<Tensors>& sets) {
    run_.launch(sets[next_], runtime_);
    next_ = (next_ + 1) % sets.size();
  }

  const CompetitorRun& run_;
  std::vector<Tensors> sets_;
  std::vector<Tensors> spare_sets_;
  Runtime& runtime_;
  std::size_t next_ = 0;
};

// Returns the seconds until all launches are done, what the host needs included.
double queue_all(int launches, const std::function<void()>& launch, Runtime& runtime) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) launch();
  runtime.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Adds the ways to time a peer, each of which begins as a copy of `timed`.
void add_peer(WaysToTime& ways, TimedLaunches timed, CompetitorRun& run, const Problem& problem) {
  const std::uint64_t bytes = bytes_of_results(problem);
  run.checks.reason = fmt::format(
      "a peer's outputs are its own: before each sample it wrote {} bytes, as many as they have, "
      "and "
      "launched once; the last ones are verified",
      bytes);
  TimedLaunches queued = timed;
  queued.time = [&run](int n) { return run.peer->load(n); };
  ways.queued.push_back(queued);

  timed.time = [&run](int n) { return run.peer->seconds_of(n); };
  timed.load = queued.time;
  timed.time_under_load = [&run](int n) {
    return run.peer->seconds_of(n, LibraryPeer::Behind::launches);
  };
  timed.launches_ahead = [&run] { return run.peer->launches_ahead(); };
  timed.prepare = [&run, bytes](int) {
    run.peer->warm_up(bytes);
    ++run.checks.launches;
  };
  ways.launches.push_back(timed);
  ways.graphs.push_back(timed);
}

// Makes launches of a competitor that write its timeline, too; `timed` has what all ways share.
TimedLaunches timeline_launches(TimedLaunches timed, const CompetitorRun& run,
                                const std::vector<Tensors>& sets, Runtime& runtime) {
  timed.name += " with a timeline";
  timed.time = [&run, &runtime, sets, next = std::size_t{0}](int n) mutable {
    const auto launch = [&](int) {
      run.kernel().launch(run.timeline->prepared.get(), sets[next], runtime.queue());
      next = (next + 1) % sets.size();
    };
    return runtime.seconds_of(n, launch, {});
  };
  return timed;
}

// Makes launches on the host, each longer by a share of its own time.
Runtime::Launch slow_launch(const std::shared_ptr<RotatingLaunches>& launches, double share) {
  return [launches, share](int) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    launches->launch_next();
    const Clock::time_point done = Clock::now();
    while (Clock::now() - done < share * (done - start)) {
    }
  };
}

void add_kernel(WaysToTime& ways, TimedLaunches timed, CompetitorRun& run,
                std::vector<Tensors> sets, Runtime& runtime, double planted_share) {
  if (run.timeline) ways.timelines.push_back(timeline_launches(timed, run, sets, runtime));
  const auto launches = std::make_shared<RotatingLaunches>(run, std::move(sets), runtime);
  const auto watch = std::make_shared<OutputWatch>(run, [&runtime, launches](int n) {
    for (int i = 0; i < n; ++i) launches->launch_spare();
    runtime.synchronize();
  });
  run.launch_next = [launches] { launches->launch_next(); };
  const Runtime::Launch launch = runtime.is_host() && planted_share > 0.0
                                     ? slow_launch(launches, planted_share)
                                     : [launches](int) { launches->launch_next(); };
  timed.retries = [&runtime] { return runtime.timer_retries(); };

  TimedLaunches queued = timed;
  queued.most_launches = kMostHostLaunches;
  queued.time = [&runtime, launches, watch](int n) {
    const auto queue = [&](int some) {
      return queue_all(
          some, [&] { launches->launch_next(); }, runtime);
    };
    const int unseen = watch->launches_before_a_look(n);
    double seconds = queue(unseen);
    if (unseen == n) return seconds;
    watch->poison();
    seconds += queue(n - unseen);
    watch->look();
    return seconds;
  };
  ways.queued.push_back(queued);

  timed.check = [watch] { watch->check(); };
  TimedLaunches graph = timed;
  graph.time = [&runtime, launch, watch](int n) {
    return runtime.graph_seconds_of(n, launch, [watch] { watch->poison(); });
  };
  ways.graphs.push_back(graph);

  timed.prepare = [watch](int n) { watch->prepare(n); };
  timed.time = [&runtime, launch, watch](int n) {
    return runtime.seconds_of(n, launch, [watch, n] { watch->prepare(n); });
  };
  timed.load = [&runtime, launches, watch](int n) {
    const double seconds = queue_all(
        n, [&] { launches->launch_spare(); }, runtime);
    watch->poison_if_shared();
    return seconds;
  };
  ways.launches.push_back(timed);
}

}  // namespace

WaysToTime ways_to_time(const std::vector<CompetitorRun*>& runs, InputRotation& rotation,
                        Runtime& runtime, const std::function<void()>& before,
                        double planted_share) {
  WaysToTime ways;
  for (CompetitorRun* run : runs) {
    const TimedLaunches timed = {
        .name = run->name(),
        .time = {},
        .before = before,
        .most_launches = runtime.is_host() ? kMostHostLaunches : kMostQueuedLaunches};
    if (run->peer) {
      add_peer(ways, timed, *run, run->record.point.problem);
    } else {
      add_kernel(ways, timed, *run, rotation.sets_of(*run), runtime, planted_share);
    }
  }
  return ways;
}

}  // namespace attnlab
