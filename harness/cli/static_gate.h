// Compares what the compiler makes of the kernels with a committed baseline, without a GPU.
#pragma once

#include <string>

#include "harness/cli/compiler_flags.h"

namespace attnlab {

struct StaticGateFlags {
  bool update = false;   // write the baseline instead of comparing with it
  std::string baseline;  // "": results/static/nvrtc-VERSION.json
  CompilingFlags compiling;
};

// Returns the exit code: 0 if nothing differs, 1 if a unit does not compile, 3 without NVRTC or a
// baseline of its version, 4 if something differs. Throws UsageError.
int run_static_gate(const StaticGateFlags& flags);

}  // namespace attnlab
