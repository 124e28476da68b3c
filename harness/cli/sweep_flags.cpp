#include "harness/cli/sweep_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "harness/base/errors.h"
#include "harness/cli/flag_values.h"
#include "harness/plan/axes.h"
#include "harness/plan/sweep_file.h"

namespace attnlab {

std::string flag_of(std::string_view axis) {
  std::string flag = "--" + std::string(axis);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void add_sweep_flags(CLI::App& command, SweepFlags& flags) {
  flags.axes.resize(axis_help().size());
  command.add_option("sweep", flags.sweep_file, "A sweep file (sweeps/README.md has the format)")
      ->type_name("SWEEP.json");
  for (std::size_t i = 0; i < axis_help().size(); ++i) {
    const AxisHelp& help = axis_help()[i];
    add_list(command, flag_of(help.name), flags.axes[i], help.summary)
        ->type_name(help.values)
        ->group("Axes");
  }
  command.add_option("--backend", flags.backend, "auto (the best there is), cpu or cuda")
      ->type_name("NAME")
      ->group("Where");
}

Sweep with_axes(Sweep sweep, const SweepFlags& flags) {
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    if (!flags.axes[i]) continue;
    sweep.overridden = true;
    const std::string axis = axis_help()[i].name;
    if (axis == "seqlen") {  // replaces whatever lengths the file has; the next two flags may add
      for (Axes& axes : sweep.axes) {
        axes.seqlen_q.clear();
        axes.seqlen_k.clear();
      }
    }
    set_axis(sweep, axis, *flags.axes[i], flag_of(axis));
  }
  return sweep;
}

Sweep make_sweep(const SweepFlags& flags) {
  Sweep sweep;
  sweep.name = "flags";
  sweep.source = "command line";
  if (!flags.sweep_file.empty()) sweep = read_sweep(flags.sweep_file);
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
