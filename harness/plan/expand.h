// Turns a sweep's axes into the cases to run.
#pragma once

#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/sweep.h"
#include "kernels/api/registry.h"

namespace attnlab {

// Returns the products of the axes. A problem of several products is one case; kernels are looked
// up, and each kernel's config is projected on the axes it declares (so a kernel without blocks
// runs once, not once per block). Where the config is supported, what it leaves open is filled in
// (Implementation::resolved). Duplicates are removed; lengths that are not given are drawn from the
// seed. A device without a name stands for a backend that this machine lacks: every competitor is
// then unsupported. Throws UsageError, naming sweep and axis, for an impossible combination that
// was asked for (heads not divisible by heads_kv, ...).
std::vector<Case> expand(const Sweep& sweep, const Registry& registry, const Device& device);

}  // namespace attnlab
