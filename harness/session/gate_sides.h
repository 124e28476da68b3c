// Finds the programs that a gate measures.
#pragma once

#include <filesystem>
#include <string>

#include "harness/session/gate.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// Returns this program, with the compiler's settings and the kernels of a source tree ("": its
// own).
GateSide own_side(const std::string& name, const CompilerSettings& compiler,
                  const std::string& sources);

// Returns the side that a flag names: an attnlab, or a source tree for this program. Throws
// UsageError where it is neither, and for a tree on a CPU, whose kernels are part of the program.
GateSide named_side(const std::string& name, const std::string& flag, const std::string& path,
                    const CompilerSettings& compiler, const Device& device);

}  // namespace attnlab
