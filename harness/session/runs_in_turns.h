// Lets runs of one sweep share a device, each in a process of its own. They take turns sample by
// sample, so that whatever drifts, drifts for all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/session/given_turns.h"

namespace attnlab {

// Holds the command of a run with --turns.
struct TurnRun {
  std::string name;  // of the side, for messages
  std::vector<std::string> command;
};

struct RunEnding {
  bool began = false;  // it greeted
  std::string how;     // "exit status 0"
  std::string errors;  // the end of what it wrote to standard error
};

struct TurnOptions {
  std::vector<std::string>
      case_ids;               // in the order of the sweep: the run that is behind goes first
  std::uint64_t seed = 0;     // of who goes when
  double timeout_s = 1800.0;  // a run that asks for nothing so long is ended
  // Is called before a step of a side begins.
  std::function<void(const TurnRun&, const TurnRequest&)> before = [](const auto&, const auto&) {};
  std::function<bool()> interrupted = [] { return false; };
};

// Starts the runs and gives them turns until all have ended, or ends them where one does not begin.
// Those that ask for samples of the same round of a case go in an order that is drawn, and the next
// time in the reverse order. Throws std::runtime_error for a run that cannot be started or says
// something else, Interrupted.
std::vector<RunEnding> take_turns(const std::vector<TurnRun>& runs, const TurnOptions& options);

}  // namespace attnlab
