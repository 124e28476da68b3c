#include "harness/run/contenders.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "harness/plan/accounting.h"
#include "harness/run/output_watch.h"

namespace attnlab {
namespace {

// A GPU's queue has a thousand places, and a launch may be a dozen kernels.
constexpr int kMostQueuedLaunches = 50;
constexpr int kMostHostLaunches = 1 << 20;

// Launches an entrant on one set of inputs after the other, from sample to sample.
class Turns {
 public:
  Turns(const Entrant& entrant, std::vector<Tensors> sets, Runtime& runtime)
      : entrant_(entrant), sets_(std::move(sets)), runtime_(runtime) {
    for (const Tensors& set : sets_) {
      spare_sets_.push_back(entrant.spare ? entrant.spare->attach(set) : set);
    }
  }

  void launch_next() { launch_next_of(sets_); }
  // The same onto the entrant's spare outputs, if it has some.
  void launch_spare() { launch_next_of(spare_sets_); }

 private:
  void launch_next_of(const std::vector<Tensors>& sets) {
    entrant_.launch(sets[next_], runtime_);
    next_ = (next_ + 1) % sets.size();
  }

  const Entrant& entrant_;
  std::vector<Tensors> sets_;
  std::vector<Tensors> spare_sets_;
  Runtime& runtime_;
  std::size_t next_ = 0;
};

// The three ways to time an entrant, each beginning as `contender` is.
void add_peer(Contenders& contenders, Contender contender, Entrant& entrant,
              const Problem& problem) {
  const std::uint64_t bytes = bytes_of_results(problem);
  entrant.checks.reason = fmt::format(
      "a peer's outputs are its own: before each sample it wrote {} bytes, as many as they have, "
      "and "
      "launched once; the last ones are verified",
      bytes);
  contender.time = [&entrant](int n) { return entrant.peer->seconds_of(n); };
  contenders.queued.push_back(contender);
  contender.prepare = [&entrant, bytes](int) {
    entrant.peer->warm_up(bytes);
    ++entrant.checks.launches;
  };
  contenders.launches.push_back(contender);
  contenders.graphs.push_back(contender);
}

void add_kernel(Contenders& contenders, Contender contender, Entrant& entrant,
                std::vector<Tensors> sets, Runtime& runtime) {
  const auto turns = std::make_shared<Turns>(entrant, std::move(sets), runtime);
  const auto watch = std::make_shared<OutputWatch>(entrant, [&runtime, turns](int launches) {
    for (int i = 0; i < launches; ++i) turns->launch_spare();
    runtime.synchronize();
  });
  entrant.launch_next = [turns] { turns->launch_next(); };
  const Runtime::Launch launch = [turns](int) { turns->launch_next(); };
  contender.retries = [&runtime] { return runtime.timer_retries(); };

  Contender queued = contender;
  queued.most_launches = kMostHostLaunches;
  queued.time = [&runtime, turns](int n) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n; ++i) turns->launch_next();
    runtime.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  contenders.queued.push_back(queued);

  contender.check = [watch] { watch->check(); };
  Contender graph = contender;
  graph.time = [&runtime, launch, watch](int n) {
    return runtime.graph_seconds_of(n, launch, [watch] { watch->poison(); });
  };
  contenders.graphs.push_back(graph);

  contender.prepare = [watch](int launches) { watch->prepare(launches); };
  contender.time = [&runtime, launch](int n) { return runtime.seconds_of(n, launch); };
  contender.load = [&runtime, turns, watch](int n) {
    const double seconds = runtime.seconds_of(n, [turns](int) { turns->launch_spare(); });
    watch->poison_if_shared();
    return seconds;
  };
  contenders.launches.push_back(contender);
}

}  // namespace

Contenders make_contenders(const std::vector<Entrant*>& entrants, InputRotation& rotation,
                           Runtime& runtime, const std::function<void()>& before) {
  Contenders contenders;
  for (Entrant* entrant : entrants) {
    const Contender contender = {
        .name = entrant->name(),
        .time = {},
        .before = before,
        .most_launches = runtime.is_host() ? kMostHostLaunches : kMostQueuedLaunches};
    if (entrant->peer) {
      add_peer(contenders, contender, *entrant, entrant->record.point.problem);
    } else {
      add_kernel(contenders, contender, *entrant, rotation.sets_of(*entrant), runtime);
    }
  }
  return contenders;
}

}  // namespace attnlab
