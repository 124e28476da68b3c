// A sweep's axes -> the cases to run.
#pragma once

#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/sweep.h"
#include "kernels/api/registry.h"

namespace attnlab {

// The products of the axes, a problem that several of them hold being one case, with kernels looked
// up, each kernel's config projected on the axes it declares (so a kernel without blocks runs once,
// not once per block) and, where it is supported, with what it leaves open filled in
// (Implementation::resolved), duplicates removed, lengths that are not given drawn from the seed. A
// device without a name stands for a backend that this machine does not have: every competitor is
// then unsupported. Throws UsageError for an impossible combination that was asked for (heads not
// divisible by heads_kv, ...), naming sweep and axis.
std::vector<Case> expand(const Sweep& sweep, const Registry& registry, const Device& device);

}  // namespace attnlab
