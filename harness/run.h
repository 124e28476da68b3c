// One case -> its records. The one place where inputs, kernels, verification, timing and memory
// meet: tensors -> prepare -> launch -> verify -> time (interleaved) -> verify what was timed ->
// observe -> record.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/observation.h"
#include "harness/peaks.h"
#include "harness/peer_process.h"
#include "harness/progress.h"
#include "harness/record.h"
#include "harness/sweep.h"

namespace attnlab {

struct RunContext {
  const Device* device = nullptr;
  Protocol protocol;
  std::string sweep_name;
  std::string command_line;
  const Observers* observers = nullptr;  // null: nobody looks at what was timed
  PeerProcess* peers = nullptr;          // where a case has some
  int profile_launches = 0;  // above 0: each kernel is launched so often for a profiler, not timed
  Telemetry* telemetry = nullptr;  // of the device; null: clocks and energy are not recorded
  bool measures_energy = false;
  KnownPeaks peaks = {.reason = "nobody looked for peaks"};  // of the device, for Record::roof
  std::uint64_t memory_limit_bytes = 0;  // larger cases are recorded as out_of_memory, unallocated
  // Asked between two steps of a case, launches among them; true ends it.
  std::function<bool()> interrupted = [] { return false; };
  // Called, if set, with the tensors of every verification, passed or not: before timing and after.
  std::function<void(const Record&, const Tensors&)> verified;
};

// What the case adds to a Progress's total: estimated cost of its competitors, in the FLOPs that a
// launch costs plus a constant for what every point costs.
double case_weight(const Case& work);

// Whether it takes part in its case at all: its kernel exists (or it is a peer), and is neither
// unsupported nor skipped.
bool wants_to_run(const Competitor& competitor);

// The record of a competitor before anything of it has run: who, what, where and how.
Record planned_record(const Case& work, const Competitor& competitor, const RunContext& context);

// What run_case() throws when RunContext::interrupted says so.
struct Interrupted {};

// For profilers each case is a ProfilerRange named by Problem::id(); inside are its steps ("verify
// v2", "time", "profile", ...), inside of those that launch all competitors one for each.
//
// Runs all competitors of one case and calls `finished` with each record as soon as it is complete;
// with those of all that were timed, and so with all that depends on who took turns with whom, in
// one call at the end. A competitor that throws, fails verification or does not fit is a record,
// and the others go on. Advances `progress` by case_weight(work). Passes on what `finished` throws.
// Throws Interrupted, and what is not finished by then is dropped.
void run_case(const Case& work, const RunContext& context, Progress& progress,
              const std::function<void(const std::vector<Record>&)>& finished);

}  // namespace attnlab
