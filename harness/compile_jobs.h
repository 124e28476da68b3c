// What has to be compiled before something can run.
#pragma once

#include <vector>

#include "harness/sweep.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// Of one competitor: its pass, and for Pass::bwd the forward before it. Empty where its backend
// compiles nothing.
std::vector<CompileJob> compile_jobs(const Problem& problem, const Competitor& competitor,
                                     const Device& device);

// Of all competitors that want to run, each job once.
std::vector<CompileJob> compile_jobs(const std::vector<Case>& cases, const Device& device);

}  // namespace attnlab
