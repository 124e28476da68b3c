// Starts a fresh process in place of this one, since nothing else ends a launch that hangs on a
// GPU.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attnlab {

// Returns the arguments that this program was given, its name first.
std::vector<std::string> own_arguments();

// Leaves out these flags and their values (also --out=FILE).
std::vector<std::string> without_flags(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& flags);

// Returns the arguments of the process that goes on with `records`: those given, with --out and
// --resume replaced by --resume records.
std::vector<std::string> arguments_to_resume(const std::vector<std::string>& arguments,
                                             const std::filesystem::path& records);

// Starts another program in this process: command[0], looked up in PATH, with the rest as its
// arguments. All files of this process are closed, and with them the device. Throws
// std::runtime_error if that fails.
[[noreturn]] void become(std::vector<std::string> command);

// Starts this program anew in this process, to run the points that `records` lacks. All files of
// this process are closed, and with them the device. Throws std::runtime_error if that fails.
[[noreturn]] void restart_to_resume(const std::filesystem::path& records);

}  // namespace attnlab
