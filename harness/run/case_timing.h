// The times of one case: all its competitors in turns, and into their records.
#pragma once

#include "harness/run/case_steps.h"
#include "harness/run/competitor_runs.h"
#include "harness/run/context.h"
#include "harness/run/input_rotation.h"

namespace attnlab {

// Times all competitors that are running, whose outputs are attached, on the sets of inputs of
// `rotation`; short launches of a GPU a second time, as graphs. What fails, or has a time that
// cannot be, has ended afterwards. Throws Ending where no time is valid, DeviceLost, Interrupted.
void time_case(CompetitorRuns& runs, InputRotation& rotation, Arena& arena,
               const RunContext& context, CaseSteps& steps);

}  // namespace attnlab
