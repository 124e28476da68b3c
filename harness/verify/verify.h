// Verifies kernels through the registry's contract alone: by fixed odd shapes, random problems,
// properties that need no oracle, and bitwise repeats. results/README.md says what is checked and
// why; `attnlab verify` prints what comes out.
//
// Wherever a kernel is launched, outputs and workspace start as NaN, guards of 512 elements lie on
// both sides of every tensor, keys that padding hides hold large finite values, and the inputs (of
// a backward also o, lse and the saved state) must be unchanged afterwards.
#pragma once

#include <string>
#include <vector>

#include "harness/verify/options.h"

namespace attnlab::verify {

// Makes all checks that the options ask for. A kernel that throws has failed that check. Inputs and
// oracle of a problem are made once for all kernels and passes.
std::vector<Result> verify(const Options& options, const Observer& observer = {});

// Returns the names of the checks that verify() would make or skip, in its order; runs nothing.
std::vector<std::string> list(const Options& options);

}  // namespace attnlab::verify
