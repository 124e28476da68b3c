// Verification of kernels through the registry's contract alone: fixed odd shapes, random problems,
// properties that need no oracle, and bitwise repeats. What is checked and why is in
// results/README.md; `attnlab verify` prints what comes out.
//
// Wherever a kernel is launched, outputs and workspace start as NaN, guards of 512 elements lie on
// both sides of every tensor, keys that padding hides hold large finite values, and the inputs (of
// a backward also o, lse and the saved state) must be unchanged afterwards.
#pragma once

#include <string>
#include <vector>

#include "harness/verify/options.h"

namespace attnlab::verify {

// All checks that the options ask for. A kernel that throws has failed that check. Inputs and
// oracle of a problem are made once for all kernels and passes.
std::vector<Result> verify(const Options& options, const Observer& observer = {});

// The names of the checks that verify() would make or skip, in its order; nothing runs.
std::vector<std::string> list(const Options& options);

}  // namespace attnlab::verify
