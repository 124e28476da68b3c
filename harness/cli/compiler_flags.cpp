#include "harness/cli/compiler_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "harness/base/errors.h"
#include "harness/cli/flag_values.h"

namespace attnlab {

namespace fs = std::filesystem;

std::shared_ptr<CompilerSettings> add_compiler_flags(CLI::App& command) {
  const auto settings = std::make_shared<CompilerSettings>();
  constexpr const char* kGroup = "CUDA kernels";
  command
      .add_option("--cache-dir", settings->cache_folder,
                  "Where compiled kernels are kept (default: ~/.cache/attnlab)")
      ->type_name("DIR")
      ->group(kGroup);
  command.add_option("--nvrtc", settings->library, "Compile with this libnvrtc, not the one found")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option("--kernel-sources", settings->source_folder,
                  "Compile kernels of this source tree, not those built in")
      ->type_name("DIR")
      ->group(kGroup);
  command
      .add_flag("--debug-kernels", settings->debug,
                "Compile for cuda-gdb: full debug information, no optimisation")
      ->group(kGroup);
  return settings;
}

void add_compiling_flags(CLI::App& command, CompilingFlags& flags) {
  command
      .add_option("--jobs", flags.jobs, "Compile so many at a time (default: the number of cores)")
      ->type_name("N")
      ->transform(whole_number(1, 4096))
      ->group("Where");
  flags.compiler = add_compiler_flags(command);
  add_table_format(command, flags.format);
  add_no_progress(command, flags.no_progress);
}

CompiledAhead compile(const CompilePlan& plan, const CompilingFlags& flags) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return compile_with_progress(plan.jobs, flags.jobs.value_or(cores), !flags.no_progress);
}

void apply_compiler_flags(const CompilerSettings& settings, const std::string& tree_flag) {
  std::error_code error;
  if (!settings.library.empty() && !fs::is_regular_file(settings.library, error)) {
    throw UsageError(
        fmt::format("--nvrtc: {}: no such file: name the library itself, like .../libnvrtc.so.13",
                    settings.library));
  }
  if (!settings.source_folder.empty() &&
      !fs::is_directory(fs::path(settings.source_folder) / "kernels", error)) {
    throw UsageError(
        fmt::format("{}: {}: holds no folder kernels: name the root of a source tree of attnlab",
                    tree_flag, settings.source_folder));
  }
  if (!settings.cache_folder.empty() && fs::exists(settings.cache_folder, error) &&
      !fs::is_directory(settings.cache_folder, error)) {
    throw UsageError(fmt::format("--cache-dir: {}: is no folder", settings.cache_folder));
  }
  CompilerSettings all = settings;
  const char* const sources = std::getenv("ATTNLAB_KERNEL_SOURCES");
  if (all.source_folder.empty() && sources != nullptr) all.source_folder = sources;  // for records
  set_compiler(all);
}

}  // namespace attnlab
