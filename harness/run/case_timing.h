// The times of one case: all its competitors in turns, and into their records.
#pragma once

#include "harness/run/case_steps.h"
#include "harness/run/context.h"
#include "harness/run/entrants.h"
#include "harness/run/input_rotation.h"

namespace attnlab {

// Times all entrants that are running, whose outputs are attached, on the sets of inputs of
// `rotation`; short launches of a GPU a second time, as graphs. What fails, or has a time that
// cannot be, has ended afterwards. Throws Ending where no time is valid, DeviceLost, Interrupted.
void time_case(Entrants& entrants, InputRotation& rotation, Arena& arena, const RunContext& context,
               CaseSteps& steps);

}  // namespace attnlab
