// The lengths of a problem's batch entries: given by the axis `lengths`, or drawn from the seed.
#pragma once

#include "kernels/api/problem.h"

namespace attnlab {

// Of a problem that is complete but for the kind of its lengths: those that are given, checked, or
// drawn ones. Padding: keys in [the mask's minimum, seqlen_k]; packed: queries and keys in
// [1, seqlen], equal where seqlen_q = seqlen_k; else dense. Throws UsageError with a remedy.
Lengths make_lengths(const Problem& problem);

}  // namespace attnlab
