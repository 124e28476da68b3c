// Defines the flags of attnlab run about files of tensors: --input, --save, --save-dropout.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/sweep_flags.h"
#include "harness/run/user_tensors.h"

namespace attnlab {

// Holds the flags as given; an empty one was not given. SweepFlags holds --input.
struct SaveFlags {
  std::string save;
  bool dropout = false;
};

// Both must live as long as the command.
void add_tensor_flags(CLI::App& command, SweepFlags& sweep, SaveFlags& save);

// Takes the sweep's sizes and inputs from --input, if it is given. Throws UsageError naming the
// flag that says what the file says.
void apply_input(Sweep& sweep, const SweepFlags& flags);

// Returns the saver that --save asks for, if any. Throws UsageError for several points, a file that
// cannot be written or is another flag's, or a dropout mask above the memory limit.
std::optional<TensorSaver> make_saver(const SaveFlags& flags, const std::vector<Case>& cases,
                                      std::uint64_t memory_limit);

// Returns whether two names mean one file, which need not exist.
bool is_same_file(const std::string& one, const std::string& other);

// Throws UsageError where two flags, each a name and its file, name one file.
void refuse_same_file(const std::pair<std::string, std::string>& one,
                      const std::pair<std::string, std::string>& other);

}  // namespace attnlab
