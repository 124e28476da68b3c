// The flags that say what to look at: a sweep file, axes, a backend.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/sweep.h"

namespace attnlab {

// As they were given; empty: not given.
struct SweepFlags {
  std::string sweep_file;
  std::vector<std::optional<std::string>> axes;  // in the order of axis_help()
  std::string backend;
};

// `flags` must live as long as the command.
void add_sweep_flags(CLI::App& command, SweepFlags& flags);

// The file's sweep with its axes replaced by the flags', or the flags' alone. Throws UsageError,
// naming the flag; also where nothing is given.
Sweep make_sweep(const SweepFlags& flags);

}  // namespace attnlab
