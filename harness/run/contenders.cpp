#include "harness/run/contenders.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace attnlab {
namespace {

// A GPU's queue has a thousand places, and a launch may be a dozen kernels.
constexpr int kMostQueuedLaunches = 50;
constexpr int kMostHostLaunches = 1 << 20;

// Launches an entrant on one set of inputs after the other, from sample to sample.
class Turns {
 public:
  Turns(const Entrant& entrant, std::vector<Tensors> sets, Runtime& runtime)
      : entrant_(entrant), sets_(std::move(sets)), runtime_(runtime) {}

  void launch_next() {
    entrant_.launch(sets_[next_], runtime_);
    next_ = (next_ + 1) % sets_.size();
  }

 private:
  const Entrant& entrant_;
  std::vector<Tensors> sets_;
  Runtime& runtime_;
  std::size_t next_ = 0;
};

}  // namespace

Contenders make_contenders(const std::vector<Entrant*>& entrants, InputRotation& rotation,
                           Runtime& runtime, const std::function<void()>& before) {
  Contenders contenders;
  for (Entrant* entrant : entrants) {
    Contender contender = {
        .name = entrant->name(),
        .time = {},
        .before = before,
        .most_launches = runtime.is_host() ? kMostHostLaunches : kMostQueuedLaunches};
    if (entrant->peer) {
      contender.time = [entrant](int n) { return entrant->peer->seconds_of(n); };
      contenders.launches.push_back(contender);
      contenders.graphs.push_back(contender);
      contenders.queued.push_back(contender);
      continue;
    }
    const auto turns = std::make_shared<Turns>(*entrant, rotation.sets_of(*entrant), runtime);
    entrant->launch_next = [turns] { turns->launch_next(); };
    const Runtime::Launch launch = [turns](int) { turns->launch_next(); };
    contender.time = [&runtime, launch](int n) { return runtime.seconds_of(n, launch); };
    contenders.launches.push_back(contender);
    contender.time = [&runtime, launch](int n) { return runtime.graph_seconds_of(n, launch); };
    contenders.graphs.push_back(contender);
    contender.most_launches = kMostHostLaunches;
    contender.time = [&runtime, turns](int n) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < n; ++i) turns->launch_next();
      runtime.synchronize();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    contenders.queued.push_back(contender);
  }
  return contenders;
}

}  // namespace attnlab
