// The tolerance rule (results/README.md states it in words): a kernel may be as wrong as a
// materialized computation in its own precision, times a small constant, and no more. NaN never
// passes.
#pragma once

#include <vector>

#include "reference/oracle.h"
#include "reference/verdict.h"

namespace attnlab::reference {

// Judges `tensors.o` and `tensors.lse` (as the kernel left them) against the references.
std::vector<Verdict> judge_forward(const Problem& problem, const Tensors& tensors,
                                   const std::vector<ForwardReference>& references);

}  // namespace attnlab::reference
