// One case -> its records. The one place where inputs, kernels, verification, timing and memory
// meet: tensors -> prepare -> launch -> verify -> time (interleaved) -> verify what was timed ->
// observe -> record.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/progress.h"
#include "harness/run/context.h"

namespace attnlab {

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
