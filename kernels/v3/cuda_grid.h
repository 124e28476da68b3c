// Which work items v3's kernel on a GPU has, in which order, and how thread blocks share them.
#pragma once

#include "kernels/api/problem.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Whether work items differ in length: thread blocks then claim the next one from a counter. Else
// they go round-robin, with stride gridDim.x.
bool is_uneven(const Problem& problem);

WorkGrid forward_grid(const Problem& problem, const ForwardConfig& config);

}  // namespace attnlab::v3
