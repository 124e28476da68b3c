// The flags of every verb that may compile kernels.
#pragma once

#include <CLI/App.hpp>
#include <memory>

#include "kernels/api/compiler.h"

namespace attnlab {

// --cache-dir, --nvrtc, --kernel-sources, --debug-kernels. The settings live as long as the
// command; apply_compiler_flags() hands them to the compiler, before anything is compiled.
std::shared_ptr<CompilerSettings> add_compiler_flags(CLI::App& command);

// set_compiler(). Throws UsageError where a flag names a file or folder that is not there.
void apply_compiler_flags(const CompilerSettings& settings);

}  // namespace attnlab
