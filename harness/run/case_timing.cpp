#include "harness/run/case_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

#include "harness/base/statistics.h"
#include "harness/measure/bench.h"
#include "harness/measure/possible_time.h"
#include "harness/measure/timeline.h"
#include "harness/measure/timing.h"
#include "harness/plan/protocol.h"
#include "harness/run/ways_to_time.h"

namespace attnlab {
namespace {

constexpr double kShortLaunch = 50e-6;  // seconds: below, graphs are timed too

class CaseTiming {
 public:
  CaseTiming(CompetitorRuns& runs, Arena& arena, const RunContext& context, CaseSteps& steps)
      : runs_(runs), timed_(runs.running()), arena_(arena), context_(context), steps_(steps) {}

  void run(InputRotation& rotation) {
    const WaysToTime ways = ways_to_time(
        timed_, rotation, arena_.runtime(), [this] { steps_.stop_if_interrupted(); },
        context_.planted_share);
    std::vector<TimedLaunches> launches = ways.launches;
    launches.insert(launches.end(), ways.timelines.begin(), ways.timelines.end());
    std::vector<Samples> measured = take_turns(launches);
    const auto behind = measured.begin() + static_cast<std::ptrdiff_t>(timed_.size());
    const std::vector<Samples> of_timelines(behind, measured.end());
    measured.erase(behind, measured.end());
    record(std::move(measured));
    record_timelines(of_timelines);
    if (context_.device->backend == Backend::cuda && context_.protocol.cache == CacheState::hot) {
      time_graphs(ways.graphs);
    }
    reject();
  }

 private:
  std::vector<Samples> take_turns(const std::vector<TimedLaunches>& launches) {
    steps_.begin("time", &Spending::timing);
    steps_.phase("warm up");
    const int rounds = context_.protocol.min_rounds;
    const double round_weight = steps_.remaining() / rounds;
    const auto after_round = [&](int round) {
      steps_.phase(fmt::format("time {}/{}", round, std::max(round, rounds)));
      if (round < rounds) steps_.advance(round_weight);
    };
    std::vector<Samples> measured = measure(launches, context_.protocol, context_.device->backend,
                                            after_round, context_.telemetry, take_turn());
    for (const Samples& samples : measured) steps_.move(samples.watch_s, &Spending::watch);
    steps_.stop_if_interrupted();
    return measured;
  }

  std::function<void(TurnStep, int)> take_turn() const {
    if (context_.turns == nullptr) return {};
    return [turns = context_.turns, id = steps_.id()](TurnStep step, int round) {
      turns->wait(id, step, round);
    };
  }

  void record(std::vector<Samples> measured) {
    runs_.hold_records();
    // Failures are recorded first: after a lost device the others have no samples, or too few.
    for (std::size_t i = 0; i < timed_.size(); ++i) {
      if (measured[i].error) {
        runs_.attempt(*timed_[i], [&] { std::rethrow_exception(measured[i].error); });
      }
    }
    for (std::size_t i = 0; i < timed_.size(); ++i) {
      CompetitorRun& run = *timed_[i];
      if (run.finished) continue;
      runs_.attempt(run, [&] {
        if (run.peer) {
          run.record.peer->launch_cost_hidden = run.peer->launch_cost_was_hidden();
        }
        run.record.order = measured[i].order;
        run.record.time = summarize(std::move(measured[i]), arena_.runtime().timer());
        run.record.time->contenders = static_cast<int>(timed_.size());
      });
    }
  }

  // Records the timelines: `measured` has one entry a competitor that has one, in their order.
  void record_timelines(const std::vector<Samples>& measured) {
    auto samples = measured.begin();
    for (CompetitorRun* run : timed_) {
      if (!run->timeline) continue;
      const Samples& own = *samples++;
      if (run->finished) continue;
      runs_.attempt(*run, [&] {
        if (own.error) std::rethrow_exception(own.error);
        const TimelineRun& timeline = *run->timeline;
        std::vector<TimelineItem> items(static_cast<std::size_t>(timeline.count));
        arena_.runtime().read(items.data(), timeline.items.get(),
                              items.size() * sizeof(TimelineItem));
        run->record.timeline =
            summarize_timeline(items, median(own.seconds), run->record.time->median_s);
        context_.timeline(run->record, items);
      });
    }
  }

  // Times short launches once more, replayed from graphs: the launch itself is most of their cost.
  // Skips cold inputs: a graph replays the inputs it was recorded with.
  void time_graphs(const std::vector<TimedLaunches>& all) {
    std::vector<CompetitorRun*> runs;
    std::vector<TimedLaunches> short_launches;
    for (std::size_t i = 0; i < timed_.size(); ++i) {
      const bool has_graphs = !timed_[i]->finished && timed_[i]->peer == nullptr;
      if (!has_graphs || timed_[i]->record.time->median_s >= kShortLaunch) continue;
      runs.push_back(timed_[i]);
      short_launches.push_back(all[i]);
    }
    if (runs.empty()) return;
    steps_.begin("time graphs", &Spending::timing);
    std::vector<Samples> measured = measure(
        short_launches, context_.protocol, context_.device->backend, [](int) {}, nullptr,
        take_turn());
    steps_.stop_if_interrupted();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      runs_.attempt(*runs[i], [&] {
        if (measured[i].error) std::rethrow_exception(measured[i].error);
        if (!measured[i].seconds.empty()) {
          runs[i]->record.time->graph = summarize_plain<GraphTiming>(std::move(measured[i]));
        }
      });
    }
  }

  // Rejects times that cannot be believed.
  void reject() {
    const std::string where = arena_.restore_guards();
    if (!where.empty()) {  // the stray write may have hit anything
      throw Ending{Status::failed, "one of the timed kernels " + where + ": no time is valid"};
    }
    for (CompetitorRun* run : runs_.running()) {
      runs_.attempt(*run, [&] {
        run->record.time->outputs = run->checks;
        const std::string impossible = impossible_time(run->record);
        if (!impossible.empty()) throw Ending{Status::invalid, impossible};
      });
    }
  }

  CompetitorRuns& runs_;
  std::vector<CompetitorRun*> timed_;
  Arena& arena_;
  const RunContext& context_;
  CaseSteps& steps_;
};

}  // namespace

void time_case(CompetitorRuns& runs, InputRotation& rotation, Arena& arena,
               const RunContext& context, CaseSteps& steps) {
  CaseTiming(runs, arena, context, steps).run(rotation);
}

}  // namespace attnlab
