#include "harness/run/entrants.h"

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

void Entrants::enter() {
  std::size_t all = 0;
  for (const Case& work : group_) all += work.competitors.size();
  entrants_.reserve(all);
  for (const Case& work : group_) {
    for (const Competitor& competitor : work.competitors) enter(work, competitor);
  }
}

void Entrants::enter(const Case& work, const Competitor& competitor) {
  Entrant& entrant = entrants_.emplace_back(
      Entrant{.competitor = &competitor, .record = planned_record(work, competitor, context_)});
  if (!competitor.skipped.empty()) {
    finish(entrant, {Status::skipped, competitor.skipped});
  } else if (!competitor.unsupported.empty()) {
    finish(entrant, {Status::unsupported, competitor.unsupported});
  } else if (is_peer(competitor.kernel)) {
    entrant.peer =
        std::make_unique<TorchPeer>(*context_.peers, competitor.kernel, *context_.device);
  } else if (competitor.implementation == nullptr) {
    finish(entrant,
           {Status::unsupported, fmt::format("no kernel '{}' on backend {}", competitor.kernel,
                                             to_string(competitor.backend))});
  }
}

std::vector<Entrant*> Entrants::running() {
  std::vector<Entrant*> result;
  for (Entrant& entrant : entrants_) {
    if (!entrant.finished) result.push_back(&entrant);
  }
  return result;
}

void Entrants::attempt(Entrant& entrant, const std::function<void()>& step) {
  try {
    if (const auto ending = ending_of(step)) finish(entrant, *ending);
  } catch (const DeviceLost& lost) {
    holds_records_ = false;  // nothing else of the case comes to an end
    // To release what lies on a device that hangs would hang too; the process ends soon.
    for (Entrant& other : entrants_) static_cast<void>(other.prepared.release());
    finish(entrant,
           {Status::invalid, fmt::format("{} {}; {}; reproduce: {}", entrant.name(), lost.what(),
                                         entrant.problem().id(),
                                         repro_command(entrant.record.point, *entrant.competitor,
                                                       *context_.device, context_.protocol))});
    throw;
  }
}

void Entrants::attempt_for_all(const std::function<void()>& step) {
  const auto ending = ending_of(step);
  if (!ending) return;
  for (Entrant* entrant : running()) finish(*entrant, *ending);
}

void Entrants::finish(Entrant& entrant, const Ending& ending) {
  entrant.finished = true;
  entrant.peer.reset();
  entrant.prepared.reset();
  entrant.forward.reset();
  entrant.outputs.reset();
  entrant.spare.reset();
  if (ending.status != Status::ok) entrant.record.time.reset();  // of wrong results: no time
  entrant.record.status = ending.status;
  entrant.record.reason = ending.reason;
  entrant.record.timestamp = utc_now();
  entrant.record.roof = roof_of(entrant.record, context_.peaks);
  if (holds_records_) {
    held_.push_back(entrant.record);
  } else {
    finished_({entrant.record});
  }
}

void Entrants::hand_out() {
  if (!held_.empty()) finished_(held_);
}

}  // namespace attnlab
