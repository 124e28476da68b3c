#include "harness/session/compile_progress.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "harness/base/progress.h"
#include "harness/base/text_table.h"

namespace attnlab {

CompiledAhead compile_with_progress(std::span<const CompileJob> jobs, int workers,
                                    bool shows_progress) {
  const auto start = std::chrono::steady_clock::now();
  CompiledAhead ahead;
  std::size_t lacking = jobs.size();  // the cache says how many before anything is compiled
  std::optional<Progress> progress;
  if (shows_progress) {
    progress.emplace(stderr, static_cast<double>(jobs.size()));
    progress->begin(fmt::format("compile {}", count_of(jobs.size(), "unit")));
  }
  ahead.compilations = compile_ahead(jobs, workers, [&](const Compilation& compilation) {
    if (compilation.from_cache) {
      --lacking;
    } else {
      ++ahead.compiled;
    }
    if (!progress) return;
    const std::string name = fmt::format("{} for {}", compilation.unit, compilation.arch);
    if (!compilation.error.empty()) progress->line(name + " failed");
    if (compilation.from_cache) {
      progress->leave_out(1.0, fmt::format("compile {}", count_of(lacking, "unit")));
    } else {
      progress->advance(1.0);
      progress->begin(fmt::format("compiled {} of {}: {}", ahead.compiled, lacking, name));
    }
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ahead.seconds = seconds.count();
  return ahead;
}

std::string describe(const CompiledAhead& ahead) {
  return wrap(fmt::format("Kernels: {} compiled in {:.1f} s, {} from the cache.", ahead.compiled,
                          ahead.compiled == 0 ? 0.0 : ahead.seconds,
                          ahead.compilations.size() - ahead.compiled));
}

}  // namespace attnlab
