// Implements attnlab compile, which compiles kernels ahead, on a machine with or without a GPU.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/sweep_flags.h"
#include "harness/cli/verbs.h"
#include "harness/plan/compile_plan.h"
#include "harness/plan/device_choice.h"
#include "harness/report/compile_report.h"
#include "harness/session/compile_progress.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(CUDA kernels are compiled when they are needed and kept on disk, keyed by their sources, the
options, the arch and the compiler. This verb compiles those of a sweep ahead, each in a process of
its own, and shows what they take: registers of a thread, spilled bytes, shared memory of a block,
the blocks that fit a multiprocessor at once and the share of its threads that they fill. No GPU is
needed: the folder (of --cache-dir, else $XDG_CACHE_HOME/attnlab or ~/.cache/attnlab) can be filled
here and carried to the machine that has one. Without a sweep file: every kernel with its default
config for every pass and dtype, head dims 64 and 128; axes replace these. $ATTNLAB_KERNEL_SOURCES
stands for --kernel-sources.

A kernel that must not spill fails if it does, or if the assembler says that it slowed it down
(C7508, C7510, C7511, C7515, C7517, C7519).

Examples:
  attnlab compile
  attnlab compile --arch sm_80,sm_90a sweeps/quick.json
  attnlab compile --kernel v2 --dtype f16 --head-dim 128 --block 64x64,128x128
  attnlab compile --kernel v2 --kernel-sources . --arch sm_90a
  attnlab compile --arch sm_90a --cache-dir cubins --format csv > registers.csv

Exit codes: 0 good, 1 a kernel failed, 2 bad flags or files, 3 there is no NVRTC.)";

struct CompileFlags {
  SweepFlags sweep;
  std::string archs;
  CompilingFlags compiling;
};

Sweep make_compile_sweep(const CompileFlags& flags) {
  if (!flags.sweep.backend.empty() && flags.sweep.backend != "cuda") {
    throw UsageError("--backend: only kernels of cuda are compiled at run time; leave it out");
  }
  if (!flags.sweep.sweep_file.empty()) return make_sweep(flags.sweep);
  return with_axes(default_compile_sweep(), flags.sweep);
}

std::vector<std::string> chosen_archs(const std::string& text) {
  if (!text.empty()) return split_list(text, "--arch");
  const Device device = choose_device(BackendChoice::cuda);
  if (!device.name.empty()) return {arch_of(device)};
  return {"sm_80", "sm_90a"};
}

int run(const CompileFlags& flags) {
  const TableFormat format = parse_format(flags.compiling.format, "--format");
  apply_compiler_flags(*flags.compiling.compiler);
  const CompilePlan plan =
      plan_compilation(make_compile_sweep(flags), builtin_registry(), chosen_archs(flags.archs));
  const bool is_text = format == TableFormat::table || format == TableFormat::markdown;
  for (const std::string& reason : plan.refused) {
    if (is_text) print_to(stdout, "{}", wrap("left out: " + reason, 4));
  }
  const CompiledAhead ahead = compile(plan, flags.compiling);
  const std::vector<Compilation>& compilations = ahead.compilations;
  print_to(stdout, "{}", render_compilations(compilations, format));
  print_to(is_text ? stdout : stderr, "{}", summarize(compilations, ahead.seconds));
  const bool any_failed =
      std::any_of(compilations.begin(), compilations.end(),
                  [](const Compilation& compilation) { return !compilation.error.empty(); });
  return any_failed ? kExitVerificationFailed : kExitGood;
}

}  // namespace

Verb add_compile_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compile", "Compile CUDA kernels ahead and show what they take; no GPU");
  command->footer(kFooter);
  const auto flags = std::make_shared<CompileFlags>();
  add_sweep_flags(*command, flags->sweep);
  add_list(*command, "--arch", flags->archs,
           "Chips (default: this machine's GPU, else sm_80,sm_90a)")
      ->type_name("NAME,...")
      ->group("Where");
  add_compiling_flags(*command, flags->compiling);
  return {command, [flags] { return run(*flags); }};
}

Verb add_compile_worker_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compile-worker", "A process of compile_ahead()");
  command->group("");  // hides it from the help: nobody calls it by hand
  return {command, [] { return run_compile_worker(); }};
}

}  // namespace attnlab
