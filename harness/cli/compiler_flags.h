// Defines the flags of every verb that may compile kernels.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>

#include "harness/plan/compile_plan.h"
#include "harness/session/compile_progress.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// Adds --cache-dir, --nvrtc, --kernel-sources, --debug-kernels. The settings live as long as the
// command; apply_compiler_flags() hands them to the compiler, before anything is compiled.
std::shared_ptr<CompilerSettings> add_compiler_flags(CLI::App& command);

// Holds the flags of a verb that compiles: those above, --jobs, --format and --no-progress.
struct CompilingFlags {
  std::shared_ptr<CompilerSettings> compiler;
  std::optional<int> jobs;
  std::string format = "table";
  bool no_progress = false;
};
void add_compiling_flags(CLI::App& command, CompilingFlags& flags);

// Compiles what a plan has, with progress.
CompiledAhead compile(const CompilePlan& plan, const CompilingFlags& flags);

// Calls set_compiler(). Throws UsageError where a flag names a file or folder that does not exist;
// `tree_flag` is what the message calls the flag of the source tree.
void apply_compiler_flags(const CompilerSettings& settings,
                          const std::string& tree_flag = "--kernel-sources");

}  // namespace attnlab
