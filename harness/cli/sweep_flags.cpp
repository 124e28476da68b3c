#include "harness/cli/sweep_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "harness/base/errors.h"
#include "harness/cli/flag_values.h"
#include "harness/plan/builtin_axes.h"
#include "harness/plan/sweep_file.h"

namespace attnlab {

void add_axis_flags(CLI::App& command, SweepFlags& flags) {
  flags.axes.resize(builtin_grammars().rows().size());
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    const AxisHelp& help = builtin_grammars().rows()[i].help;
    add_list(command, flag_of(help.name), flags.axes[i], help.summary)
        ->type_name(help.values)
        ->group("Axes");
  }
}

void add_sweep_flags(CLI::App& command, SweepFlags& flags) {
  command.add_option("sweep", flags.sweep_file, "A sweep file (sweeps/README.md has the format)")
      ->type_name("SWEEP.json");
  add_axis_flags(command, flags);
  add_backend_flag(command, flags);
}

void add_backend_flag(CLI::App& command, SweepFlags& flags) {
  command.add_option("--backend", flags.backend, "auto (the best there is), cpu or cuda")
      ->type_name("NAME")
      ->group("Where");
}

bool names_points(const SweepFlags& flags) {
  return !flags.sweep_file.empty() ||
         std::ranges::any_of(flags.axes, [](const auto& axis) { return axis.has_value(); });
}

void set_axis_flag(SweepFlags& flags, const std::string& axis, const std::string& values) {
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    if (builtin_grammars().rows()[i].help.name == axis) flags.axes[i] = values;
  }
}

std::vector<std::string> arguments_of(const SweepFlags& flags) {
  std::vector<std::string> words;
  if (!flags.sweep_file.empty()) words.push_back(flags.sweep_file);
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    if (!flags.axes[i]) continue;
    words.push_back(flag_of(builtin_grammars().rows()[i].help.name) + "=" + *flags.axes[i]);
  }
  if (!flags.backend.empty()) words.push_back("--backend=" + flags.backend);
  return words;
}

Sweep with_axes(Sweep sweep, const SweepFlags& flags) {
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    if (!flags.axes[i]) continue;
    sweep.overridden = true;
    const std::string& axis = builtin_grammars().rows()[i].help.name;
    if (axis == "seqlen") {  // replaces whatever lengths the file has; the next two flags may add
      for (Axes& axes : sweep.axes) {
        axes.seqlen_q.clear();
        axes.seqlen_k.clear();
      }
    }
    builtin_grammars().set(sweep, axis, *flags.axes[i], flag_of(axis));
  }
  return sweep;
}

Sweep make_sweep(const SweepFlags& flags) {
  Sweep sweep;
  sweep.name = "flags";
  sweep.source = "command line";
  if (!flags.sweep_file.empty()) sweep = read_sweep(flags.sweep_file, builtin_registry());
  sweep = with_axes(std::move(sweep), flags);
  if (!flags.backend.empty()) sweep.backend = parse_backend(flags.backend, "--backend");
  if (flags.sweep_file.empty() && flags.input.empty() && !sweep.overridden) {
    throw UsageError(
        "nothing to do: name a sweep file (attnlab list shows those there are) or an axis, like "
        "--seqlen 1024");
  }
  return sweep;
}

}  // namespace attnlab
