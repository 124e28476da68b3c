// Implements attnlab sass, which shows the instructions of a compiled kernel beside its text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/sweep_flags.h"
#include "harness/cli/verbs.h"
#include "harness/plan/compile_plan.h"
#include "harness/plan/device_choice.h"
#include "harness/report/sass_diff.h"
#include "harness/report/sass_report.h"
#include "harness/session/disassembly.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(UNIT is a name from the first column of attnlab compile, or its beginning where only one unit
begins so. It is looked for among the kernels' default configs for every pass and dtype, head dims
64 and 128, without a mask; axes replace these. The unit is compiled, or taken from the cache, and
NVIDIA's nvdisasm takes it apart; neither needs a GPU.

Counted is what stands in the code: an instruction in a loop counts once. Where a kernel's schedule
says which products of tiles it has (v3), the wgmmas of the code are held against it. Of each loop
that starts products the instructions are shown that stand between those of two steps, when the
tensor cores get nothing to do from this warp. --by-line counts for each line of the kernel's own
folder, where calls of functions of other folders count for the line that calls; --listing shows all
instructions below these lines, and the innermost line where it is another.

--diff OTHER compares with another name (a unit of the same arch), with an arch (sm_80: what UNIT
names there), or with a folder (. or one with a slash: the same unit of that source tree, which is
read as by --kernel-sources). Lines are the same where their text is.

Examples:
  attnlab sass v3-forward-f16-d128
  attnlab sass v3-forward-f16-d128 --by-line
  attnlab sass v2-forward-f16-d64 --arch sm_80 --listing | less
  attnlab sass v2-forward-f16-d64 --diff sm_80
  attnlab sass v3-forward-f16-d128 --diff v3-forward-bf16-d128
  attnlab sass v3-forward-f16-d128 --diff . --format json
  attnlab sass v3-forward-f16-d128-64x64 --mask window:64:0 --block 64x64

Exit codes: 0 good, 1 a unit does not compile or is not clean, or wgmmas of its schedule's products
are missing, 2 bad flags or files, 3 there is no NVRTC or no nvdisasm.)";

struct SassFlags {
  SweepFlags sweep;
  std::string unit, other, arch, format = "table";
  std::shared_ptr<CompilerSettings> compiler;
  SassView view;
  bool no_progress = false;
};

// Returns the chip whose code is shown.
std::string chosen_arch(const std::string& asked) {
  if (!asked.empty()) return asked;
  const Device device = choose_device(BackendChoice::cuda);
  return device.name.empty() ? "sm_90a" : arch_of(device);
}

// Finds the job whose unit has this name, or is the only one that begins with it. Throws
// UsageError, led by `where`.
CompileJob find_job(const SassFlags& flags, const std::string& name, const std::string& arch,
                    const std::string& where) {
  const CompilePlan plan =
      plan_compilation(with_axes(default_compile_sweep(), flags.sweep), builtin_registry(), {arch});
  std::vector<std::string> fitting;
  const CompileJob* found = nullptr;
  for (const CompileJob& job : plan.jobs) {
    if (job.unit.name == name) return job;
    if (!job.unit.name.starts_with(name)) continue;
    fitting.push_back(job.unit.name);
    found = &job;
  }
  if (fitting.size() == 1) return *found;
  if (fitting.empty()) {
    throw UsageError(fmt::format(
        "{}: no unit for {} begins with '{}': attnlab compile lists them, and axes bring others",
        where, arch, name));
  }
  throw UsageError(fmt::format("{}: {} for {} begin with '{}': {}", where,
                               count_of(fitting.size(), "unit"), arch, name,
                               fmt::join(fitting, ", ")));
}

bool is_folder(const std::string& word) {
  return word == "." || word == ".." || word.find('/') != std::string::npos;
}

// Holds a unit to be disassembled, and the settings of the compiler for it.
struct Side {
  CompileJob job;
  CompilerSettings settings;
  std::string tree_flag = "--kernel-sources";
};

// Finds the unit that --diff names.
Side find_other(const SassFlags& flags, const std::string& arch) {
  Side side{.settings = *flags.compiler};
  if (is_folder(flags.other)) {
    side.job = find_job(flags, flags.unit, arch, "UNIT");
    side.settings.source_folder = flags.other;
    side.tree_flag = "--diff";
  } else if (flags.other.starts_with("sm_")) {
    side.job = find_job(flags, flags.unit, flags.other, "--diff");
  } else {
    side.job = find_job(flags, flags.other, arch, "--diff");
  }
  return side;
}

// Finds UNIT and, where --diff is given, OTHER. Throws UsageError before anything is compiled.
std::vector<Side> find_sides(const SassFlags& flags) {
  std::vector<Side> sides(1, {.settings = *flags.compiler});
  apply_compiler_flags(*flags.compiler);
  const std::string arch = chosen_arch(flags.arch);
  sides.front().job = find_job(flags, flags.unit, arch, "UNIT");
  if (flags.other.empty()) return sides;
  sides.push_back(find_other(flags, arch));
  apply_compiler_flags(sides.back().settings, sides.back().tree_flag);
  return sides;
}

// Says why a unit has no code, or why it should not have this one.
bool check(const SassUnit& unit) {
  if (!unit.compilation.error.empty()) {
    print_to(stderr, "attnlab sass: {}: {}\n", title_of(unit), unit.compilation.error);
  }
  return unit.compilation.error.empty() && has_complete_products(unit);
}

int run(const SassFlags& flags) {
  const TableFormat format = parse_format(flags.format, "--format");
  if (!flags.other.empty() && (flags.view.by_line || flags.view.listing)) {
    throw UsageError("--diff: shows the lines that differ; leave --by-line and --listing out");
  }
  const std::vector<Side> sides = find_sides(flags);
  const std::string nvdisasm = find_nvdisasm();
  std::vector<SassUnit> units;
  for (const Side& side : sides) {
    apply_compiler_flags(side.settings, side.tree_flag);
    units.push_back(take_apart(side.job, nvdisasm, !flags.no_progress));
  }
  print_to(stdout, "{}",
           units.size() == 1 ? render_sass(units.front(), flags.view, format)
                             : render_sass_diff(units.front(), units.back(), format));
  const auto bad = std::ranges::count_if(units, [](const SassUnit& unit) { return !check(unit); });
  return bad == 0 ? kExitGood : kExitVerificationFailed;
}

}  // namespace

Verb add_sass_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("sass", "Show a kernel's instructions beside its text, and count; no GPU");
  command->footer(kFooter);
  const auto flags = std::make_shared<SassFlags>();
  command->add_option("unit", flags->unit, "A unit's name, or its beginning")
      ->type_name("UNIT")
      ->required();
  add_axis_flags(*command, flags->sweep);
  command->add_option("--arch", flags->arch, "Chip (default: this machine's GPU, else sm_90a)")
      ->type_name("NAME")
      ->group("Where");
  flags->compiler = add_compiler_flags(*command);
  command->add_flag("--by-line", flags->view.by_line, "Count for each line of the kernel's text")
      ->group("Output");
  command->add_flag("--listing", flags->view.listing, "Show all instructions below their lines")
      ->group("Output");
  command->add_option("--diff", flags->other, "Compare with another unit, arch or source tree")
      ->type_name("OTHER")
      ->group("Output");
  add_table_format(*command, flags->format);
  add_no_progress(*command, flags->no_progress);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
