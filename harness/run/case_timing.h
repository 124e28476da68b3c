// Takes the times of one case, with all its competitors in turns, into their records.
#pragma once

#include "harness/run/case_steps.h"
#include "harness/run/competitor_runs.h"
#include "harness/run/context.h"
#include "harness/run/input_rotation.h"

namespace attnlab {

// Times all competitors that are running, whose outputs are attached, on the sets of inputs of
// `rotation`; times short launches of a GPU again, as graphs. What fails, or has an impossible
// time, has ended afterwards. Throws Ending where no time is valid, DeviceLost, Interrupted.
void time_case(CompetitorRuns& runs, InputRotation& rotation, Arena& arena,
               const RunContext& context, CaseSteps& steps);

}  // namespace attnlab
