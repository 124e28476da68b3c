// Tracks the competitors of a group of cases: who is still on the way, how each one's way ends, and
// when its record is handed out.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "harness/run/competitor_run.h"
#include "harness/run/context.h"
#include "harness/run/ending.h"

namespace attnlab {

class CompetitorRuns {
 public:
  using Finished = std::function<void(const std::vector<Record>&)>;

  // All arguments must outlive the object.
  CompetitorRuns(std::span<const Case> group, const RunContext& context, const Finished& finished)
      : group_(group), context_(context), finished_(finished) {}

  // Records at once what cannot run at all; all others are running from then on.
  void enter();

  std::vector<CompetitorRun*> running();

  // Runs a step of one's way; where it throws, that way has ended: see ending_of(). Passes on
  // DeviceLost, with the competitor's record handed out, and Interrupted.
  void attempt(CompetitorRun& run, const std::function<void()>& step);
  // Runs a step of each of those that are running, as attempt() does.
  void attempt_for_all(const std::function<void()>& step);

  // Completes the record: with a roof of its time, or without the time if the status is not ok.
  void finish(CompetitorRun& run, const Ending& ending);

  // From now on records wait for hand_out(): what took turns is handed out in one call.
  void hold_records() { holds_records_ = true; }
  void hand_out();

 private:
  void enter(const Case& work, const Competitor& competitor);

  std::span<const Case> group_;
  const RunContext& context_;
  const Finished& finished_;
  std::vector<CompetitorRun> runs_;
  bool holds_records_ = false;
  std::vector<Record> held_;
};

}  // namespace attnlab
