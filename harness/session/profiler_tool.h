// Finds Nsight's command-line tools, and says what they are started with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/plan/protocol.h"

namespace attnlab {

enum class ProfilerTool : std::uint8_t { ncu, nsys };
const char* to_string(ProfilerTool tool);
// Reads a tool's name. Throws UsageError, naming --tool.
ProfilerTool parse_tool(const std::string& text);

struct ProfilerRun {
  ProfilerTool tool = ProfilerTool::ncu;
  CacheState cache = CacheState::hot;  // ncu empties the caches before each kernel: cold
  std::vector<std::string> metrics;    // that ncu collects, beside the stalls
  std::string report;                  // without the ending, which the tool appends
  std::vector<std::string> extra;      // the user's own flags: each replaces ours of its name
  std::vector<std::string> program;    // attnlab run --profile ... and what it is to run
};

// Returns the words of the command that runs the program under the tool, which is called `name`.
std::vector<std::string> profiler_command(const std::string& name, const ProfilerRun& run);

// Returns the word that starts the tool here: its name where PATH has it, else its path in
// $CUDA_HOME/bin, /usr/local/cuda/bin or /opt/nvidia. It is empty where none of them has it.
std::string find_profiler(ProfilerTool tool);
// Returns find_profiler(). Throws std::runtime_error, with what to install, where it is empty.
std::string require_profiler(ProfilerTool tool);

// Returns the raw page of a report of ncu, as CSV: ncu makes it of its own files (.ncu-rep), others
// are read as they are. Throws UsageError, naming the file; std::runtime_error where ncu is not
// there.
std::string read_profiler_report(const std::filesystem::path& file);

}  // namespace attnlab
