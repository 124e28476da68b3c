// Compiles kernels ahead, and shows the user how far it is.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/api/compiler.h"

namespace attnlab {

struct CompiledAhead {
  std::vector<Compilation> compilations;  // one a job, in their order
  std::size_t compiled = 0;               // that the cache had not
  double seconds = 0.0;                   // of waiting
};

// Calls compile_ahead(). With `shows_progress` standard error says how many of those that the cache
// lacks are compiled, which one was the last, and the time left.
CompiledAhead compile_with_progress(std::span<const CompileJob> jobs, int workers,
                                    bool shows_progress);

// Returns "Kernels: 3 compiled in 4.1 s, 5 from the cache."
std::string describe(const CompiledAhead& ahead);

}  // namespace attnlab
