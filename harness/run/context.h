// The context is the same for all cases of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "harness/measure/peaks.h"
#include "harness/measure/turns.h"
#include "harness/record/record.h"
#include "harness/run/observers.h"
#include "harness/run/peer_process.h"
#include "harness/run/spending.h"
#include "kernels/api/runtime.h"
#include "kernels/api/telemetry.h"
#include "kernels/api/tensors.h"
#include "kernels/api/timeline.h"

namespace attnlab {

struct RunContext {
  const Device* device = nullptr;
  Runtime* runtime = nullptr;  // allocates the tensors; null: the device's
  Protocol protocol;
  std::string sweep_name;
  std::optional<ShardPart> shard;  // empty: the cases are the whole sweep
  std::string command_line;
  const Observers* observers = nullptr;  // null: nobody looks at what was timed
  PeerProcesses* peers = nullptr;        // where a case has some
  int profile_launches = 0;  // above 0: each kernel is launched so often for a profiler, not timed
  Telemetry* telemetry = nullptr;  // of the device; null: clocks and energy are not recorded
  bool measures_energy = false;
  KnownPeaks peaks = {.reason = "nobody looked for peaks"};  // of the device, for Record::roof
  std::uint64_t memory_limit_bytes = 0;  // larger points are recorded as out_of_memory, unallocated
  DeviceTurns* turns = nullptr;          // when launches may be timed; null: at any time
  double planted_share = 0.0;    // of a launch's time, by which each timed launch is made longer
  Spending* spending = nullptr;  // gets the seconds of all cases; null: nobody asks
  // Is asked between two steps of a case, and between launches; true ends the case.
  std::function<bool()> interrupted = [] { return false; };
  // If set, the competitors of a case, all of which have one, write a timeline beside what is
  // timed, and this is called with the items of a last launch.
  std::function<void(const Record&, std::span<const TimelineItem>)> timeline;
  // Is called, if set, with the tensors of every verification, before and after timing.
  std::function<void(const Record&, const Tensors&)> verified;
};

// Returns a competitor's record before anything of it has run: who, what, where and how.
Record planned_record(const Case& work, const Competitor& competitor, const RunContext& context);

// run_case() throws this when RunContext::interrupted says so.
struct Interrupted {};

}  // namespace attnlab
