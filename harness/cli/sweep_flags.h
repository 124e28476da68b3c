// Defines the flags that say what to look at: a sweep file, axes, a backend.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/sweep.h"

namespace attnlab {

// Holds the flags as they were given; an empty one was not given.
struct SweepFlags {
  std::string sweep_file;
  std::vector<std::optional<std::string>> axes;  // in the order of builtin_grammars()
  std::string backend;
  std::string input;  // a file of tensors that says the sizes; apply_input() reads it
};

// `flags` must live as long as the command.
void add_sweep_flags(CLI::App& command, SweepFlags& flags);
// These add the flags of the axes alone, and --backend alone.
void add_axis_flags(CLI::App& command, SweepFlags& flags);
void add_backend_flag(CLI::App& command, SweepFlags& flags);

// Returns whether they name a sweep file or an axis.
bool names_points(const SweepFlags& flags);
// Sets an axis as if its flag had been given.
void set_axis_flag(SweepFlags& flags, const std::string& axis, const std::string& values);

// Returns the words of a command line that gives these flags again.
std::vector<std::string> arguments_of(const SweepFlags& flags);

// Returns the sweep with the given axes replaced. Throws UsageError, naming the flag.
Sweep with_axes(Sweep sweep, const SweepFlags& flags);

// Returns the file's sweep with its axes replaced by the flags', or the flags' alone. Throws
// UsageError, naming the flag; also where nothing is given.
Sweep make_sweep(const SweepFlags& flags);

}  // namespace attnlab
