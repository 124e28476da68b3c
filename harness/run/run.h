// Turns one case, or a group of them that differ in layout, into its records. Only here inputs,
// kernels, verification, timing and memory meet: tensors -> prepare -> launch -> verify -> time
// (interleaved) -> verify what was timed -> observe -> record.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/progress.h"
#include "harness/run/context.h"

namespace attnlab {

// A profiler sees each group as a ProfilerRange named by its first Problem::id(), inside of it its
// steps ("verify v2", "time", "profile", ...), and inside of those that launch all competitors one
// range for each.
//
// Runs all competitors of a group of cases, which take turns, and calls `finished` with each
// record as soon as it is complete; all records that were timed, and so depend on who took
// turns with whom, come in one call at the end. A competitor that throws, fails verification or
// does not fit is a record, and the others go on. Advances `progress` by the case_weight() of
// all. Passes on what `finished` throws. Throws Interrupted, and drops what is not finished by
// then. Where the device has no room for the layouts of a group at once, they run one after
// another.
void run_group(const CaseGroup& group, const RunContext& context, Progress& progress,
               const std::function<void(const std::vector<Record>&)>& finished);

// Runs a group of one case, which has no other layouts.
void run_case(const Case& work, const RunContext& context, Progress& progress,
              const std::function<void(const std::vector<Record>&)>& finished);

}  // namespace attnlab
