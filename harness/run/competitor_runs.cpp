#include "harness/run/competitor_runs.h"

#include <fmt/format.h>

#include <ctime>
#include <memory>

#include "harness/measure/roof.h"
#include "harness/plan/peer_names.h"
#include "harness/record/repro.h"

namespace attnlab {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

void CompetitorRuns::enter() {
  std::size_t all = 0;
  for (const Case& work : group_) all += work.competitors.size();
  runs_.reserve(all);
  for (const Case& work : group_) {
    for (const Competitor& competitor : work.competitors) enter(work, competitor);
  }
}

void CompetitorRuns::enter(const Case& work, const Competitor& competitor) {
  CompetitorRun& run = runs_.emplace_back(CompetitorRun{
      .competitor = &competitor, .record = planned_record(work, competitor, context_)});
  if (!competitor.skipped.empty()) {
    finish(run, {Status::skipped, competitor.skipped});
  } else if (!competitor.unsupported.empty()) {
    finish(run, {Status::unsupported, competitor.unsupported});
  } else if (is_peer(competitor.kernel)) {
    PeerProcess& process = context_.peers->of(split_peer(competitor.kernel).library);
    run.peer = std::make_unique<LibraryPeer>(process, competitor.kernel, *context_.device);
  } else if (competitor.implementation == nullptr) {
    finish(run, {Status::unsupported, fmt::format("no kernel '{}' on backend {}", competitor.kernel,
                                                  to_string(competitor.backend))});
  }
}

std::vector<CompetitorRun*> CompetitorRuns::running() {
  std::vector<CompetitorRun*> result;
  for (CompetitorRun& run : runs_) {
    if (!run.finished) result.push_back(&run);
  }
  return result;
}

void CompetitorRuns::attempt(CompetitorRun& run, const std::function<void()>& step) {
  try {
    if (const auto ending = ending_of(step)) finish(run, *ending);
  } catch (const DeviceLost& lost) {
    holds_records_ = false;  // no other competitor of the case ends any more
    // Releasing what lies on a device that hangs would hang too; and the process ends soon.
    for (CompetitorRun& other : runs_) static_cast<void>(other.prepared.release());
    finish(run, {Status::invalid, fmt::format("{} {}; {}; reproduce: {}", run.name(), lost.what(),
                                              run.problem().id(),
                                              repro_command(run.record.point, *run.competitor,
                                                            *context_.device, context_.protocol))});
    throw;
  }
}

void CompetitorRuns::attempt_for_all(const std::function<void()>& step) {
  const auto ending = ending_of(step);
  if (!ending) return;
  for (CompetitorRun* run : running()) finish(*run, *ending);
}

void CompetitorRuns::finish(CompetitorRun& run, const Ending& ending) {
  run.finished = true;
  run.peer.reset();
  run.prepared.reset();
  run.forward.reset();
  run.outputs.reset();
  run.spare.reset();
  if (ending.status != Status::ok) run.record.time.reset();  // a wrong result has no time
  // A peer may find out only when it prepares that it cannot do the problem; then it did nothing.
  if (ending.status == Status::unsupported) run.record.flops.reset();
  run.record.status = ending.status;
  run.record.reason = ending.reason;
  run.record.timestamp = utc_now();
  run.record.roof = roof_of(run.record, context_.peaks);
  if (holds_records_) {
    held_.push_back(run.record);
  } else {
    finished_({run.record});
  }
}

void CompetitorRuns::hand_out() {
  if (!held_.empty()) finished_(held_);
}

}  // namespace attnlab
