#include "harness/run/competitor_run.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/plan/accounting.h"
#include "harness/plan/compile_jobs.h"
#include "harness/plan/peer_names.h"
#include "kernels/api/timeline.h"

namespace attnlab {

std::string CompetitorRun::name() const {
  if (is_peer(competitor->kernel)) return competitor->kernel;
  return fmt::format("{} {}", competitor->kernel, competitor->config.to_string());
}

void CompetitorRun::compile(const Problem& problem, const Device& device) {
  CompileJobs jobs;
  jobs.add(problem, *competitor, device);
  record.compilations = compile_ahead(jobs.all(), 1, [](const Compilation&) {});
  for (const Compilation& compilation : record.compilations) {
    if (!compilation.error.empty()) throw std::runtime_error(compilation.error);
  }
}

Prepared CompetitorRun::prepare(const Problem& problem, const Device& device) const {
  return {kernel().prepare(problem, competitor->config, device), {competitor->implementation}};
}

TimelineRun CompetitorRun::prepare_timeline(Arena& arena, const Device& device) const {
  const Config& config = competitor->config;
  const std::int64_t count = kernel().timeline_items(problem(), config);
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * sizeof(TimelineItem);
  Arena::Buffer items = arena.allocate("timeline", bytes);
  arena.runtime().fill(items.get(), 0, bytes);
  auto* const gItems = static_cast<TimelineItem*>(items.get());
  Prepared writes{kernel().prepare_timeline(problem(), config, device, gItems),
                  {competitor->implementation}};
  return {.items = std::move(items), .count = count, .prepared = std::move(writes)};
}

std::string CompetitorRun::run_forward(Arena& arena, const Problem& problem, const Device& device,
                                       const Tensors& inputs) {
  const Problem forward_problem = forward_of(problem);
  const std::uint64_t bytes = forward_workspace_bytes(problem, *competitor, device);
  forward.emplace(arena, name(), forward_problem, kernel(),
                  kernel_saved_bytes(problem, *competitor));
  const Arena::Buffer workspace = arena.allocate("workspace", bytes);
  Tensors given = forward->attach(inputs);
  given.dout = nullptr;
  given.workspace = workspace.get();
  given.workspace_bytes = bytes;
  const Config config = forward_config(kernel(), competitor->config);
  const Prepared prepared_forward{kernel().prepare(forward_problem, config, device),
                                  {competitor->implementation}};
  kernel().launch(prepared_forward.get(), given, arena.runtime().queue());
  forward->seal();
  return arena.restore_guards();
}

void CompetitorRun::launch(const Tensors& given, Runtime& runtime) const {
  kernel().launch(prepared.get(), given, runtime.queue());
}

Outputs CompetitorRun::make_outputs(Arena& arena, const Problem& problem) const {
  return Outputs(arena, name(), problem, kernel(), kernel_saved_bytes(problem, *competitor));
}

Tensors CompetitorRun::attach(const Tensors& inputs, const Outputs& own,
                              const Arena::Buffer& workspace) const {
  Tensors all = own.attach(forward ? forward->attach(inputs) : inputs);
  all.workspace = workspace.get();
  all.workspace_bytes = workspace_bytes();
  return all;
}

}  // namespace attnlab
