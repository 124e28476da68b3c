// Plans which units the points of a sweep need compiled, for chips that need not be there.
#pragma once

#include <string>
#include <vector>

#include "harness/plan/sweep.h"
#include "kernels/api/compiler.h"

namespace attnlab {

struct CompilePlan {
  std::vector<CompileJob> jobs;      // each unit once an arch, in the order of the points
  std::vector<std::string> refused;  // why points need nothing: each reason once
};

// Returns what `attnlab compile` takes where nothing is asked for: every pass and dtype, head dims
// 64 and 128, the kernels' default configs.
Sweep default_compile_sweep();

// Plans for the CUDA points of a sweep, whatever backend it names. Throws UsageError like expand(),
// and for an arch that is not known.
CompilePlan plan_compilation(Sweep sweep, const Registry& registry,
                             const std::vector<std::string>& archs);

}  // namespace attnlab
