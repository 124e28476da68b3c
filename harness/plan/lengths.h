// Makes the lengths of a problem's batch entries: those of the axis `lengths`, or drawn ones.
#pragma once

#include "kernels/api/problem.h"

namespace attnlab {

// Returns the lengths of a problem that is complete but for their kind: given ones, checked, or
// drawn ones. Padding draws keys in [the mask's minimum, seqlen_k]; packed, queries and keys in [1,
// seqlen], equal where seqlen_q = seqlen_k; else they are dense. Throws UsageError with a remedy.
Lengths make_lengths(const Problem& problem);

}  // namespace attnlab
