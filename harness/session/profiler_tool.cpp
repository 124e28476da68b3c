#include "harness/session/profiler_tool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "harness/base/child_process.h"
#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/base/text_file.h"
#include "kernels/api/programs.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Lists where NVIDIA's installers put it: /opt/nvidia/nsight-compute/2025.1.0/ncu, newest first.
std::vector<fs::path> installed(const std::string& name) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& product : fs::directory_iterator("/opt/nvidia", error)) {
    if (!product.path().filename().string().starts_with("nsight-")) continue;
    for (const auto& version : fs::directory_iterator(product.path(), error)) {
      found.push_back(version.path() / name);
      found.push_back(version.path() / "bin" / name);
    }
  }
  std::ranges::sort(found, [](const fs::path& a, const fs::path& b) {
    return strverscmp(a.c_str(), b.c_str()) > 0;
  });
  return found;
}

// Holds a flag with its value, if it has one.
using Flag = Words;

std::vector<Flag> flags_of_ncu(const ProfilerRun& run) {
  // Both must hold of a launch: the profiler was started, and the range is open. (The slash says
  // that it is a range that was pushed, at any depth.)
  return {{"--target-processes", "application-only"},
          {"--profile-from-start", "off"},
          {"--nvtx"},
          {"--nvtx-include", "attnlab@profile/"},
          {"--clock-control", "none"},
          {"--cache-control", run.cache == CacheState::cold ? "all" : "none"},
          {"--section", "WarpStateStats"},
          {"--metrics", fmt::format("{}", fmt::join(run.metrics, ","))},
          {"--export", run.report},
          {"--force-overwrite"}};
}

std::vector<Flag> flags_of_nsys(const ProfilerRun& run) {
  return {{"--trace", "cuda,nvtx,cublas"},
          {"--sample", "none"},
          {"--cpuctxsw", "none"},
          {"--capture-range", "cudaProfilerApi"},
          {"--capture-range-end", "repeat"},  // a report for each kernel that is profiled
          {"--output", run.report},
          {"--force-overwrite", "true"}};
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

const char* to_string(ProfilerTool tool) { return tool == ProfilerTool::ncu ? "ncu" : "nsys"; }

ProfilerTool parse_tool(const std::string& text) {
  for (const ProfilerTool tool : {ProfilerTool::ncu, ProfilerTool::nsys}) {
    if (text == to_string(tool)) return tool;
  }
  throw UsageError(fmt::format("--tool: '{}' is neither ncu nor nsys{}", text,
                               suggestion(text, {"ncu", "nsys"})));
}

std::vector<std::string> profiler_command(const std::string& name, const ProfilerRun& run) {
  Words command = {name};
  if (run.tool == ProfilerTool::nsys) command.emplace_back("profile");
  const bool is_ncu = run.tool == ProfilerTool::ncu;
  // The user's flag replaces ours: neither tool takes a flag twice.
  const auto is_replaced = [&](const Flag& flag) {
    return std::ranges::any_of(run.extra, [&](const std::string& word) {
      return word.substr(0, word.find('=')) == flag.front();
    });
  };
  for (const Flag& flag : is_ncu ? flags_of_ncu(run) : flags_of_nsys(run)) {
    if (!is_replaced(flag)) append(command, flag);
  }
  append(command, run.extra);
  append(command, run.program);
  return command;
}

std::string find_profiler(ProfilerTool tool) {
  const std::string name = to_string(tool);
  if (!find_on_path(name).empty()) return name;
  std::vector<fs::path> places;
  if (const char* const home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0') {
    places.push_back(fs::path(home) / "bin" / name);
  }
  places.push_back(fs::path("/usr/local/cuda/bin") / name);
  for (const fs::path& place : installed(name)) places.push_back(place);
  const auto found = std::ranges::find_if(places, is_program);
  return found == places.end() ? "" : found->string();
}

std::string require_profiler(ProfilerTool tool) {
  if (std::string found = find_profiler(tool); !found.empty()) return found;
  const bool is_ncu = tool == ProfilerTool::ncu;
  throw std::runtime_error(fmt::format(
      "{0} is not on PATH, nor in $CUDA_HOME/bin, /usr/local/cuda/bin or /opt/nvidia: install "
      "NVIDIA Nsight {1}: apt-get install nsight-{2} (Debian: non-free, Ubuntu: multiverse){3}; "
      "--print shows the command without it",
      to_string(tool), is_ncu ? "Compute" : "Systems", is_ncu ? "compute" : "systems",
      is_ncu ? ", 2024.1 or later, for older ones do not count FLOPs of tensor cores" : ""));
}

std::string read_profiler_report(const std::filesystem::path& file) {
  if (file.extension() != ".ncu-rep") return read_text(file);
  if (!fs::is_regular_file(file)) {
    throw UsageError(fmt::format("{}: no such file", file.string()));
  }
  constexpr double kTimeout = 600.0;
  // The C locale is needed: in others numbers have other separators.
  ChildProcess ncu({"env", "LC_ALL=C", require_profiler(ProfilerTool::ncu), "--import",
                    file.string(), "--page", "raw", "--csv", "--print-units", "base"});
  std::string text, line;
  while (ncu.read_line(kTimeout, line) == ChildProcess::Outcome::line) {
    text += line;
    text += '\n';
  }
  const std::string end = ncu.end(1.0);
  if (end == "exit status 0") return text;
  throw UsageError(fmt::format("{}: ncu cannot read it ({}): {}", file.string(), end,
                               ncu.errors().empty() ? text : ncu.errors()));
}

}  // namespace attnlab
