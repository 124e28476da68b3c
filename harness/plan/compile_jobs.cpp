#include "harness/plan/compile_jobs.h"

#include <fmt/format.h>

#include <utility>

#include "harness/plan/accounting.h"
#include "harness/plan/case.h"

namespace attnlab {
namespace {

// Returns all that a compilation depends on, and how its result is judged.
std::string identity(const CompileJob& job) {
  std::string text = fmt::format("{}\n{}\n{}\n", job.arch, job.unit.name, job.unit.must_be_clean);
  for (const KernelEntry& entry : job.unit.entries) {
    text += fmt::format("{} {} {}\n", entry.name, entry.threads, entry.dynamic_shared_bytes);
  }
  for (const std::string& option : job.unit.options) text += option + "\n";
  return text + job.unit.source;
}

}  // namespace

void CompileJobs::add(const Problem& problem, const Competitor& competitor, const Device& device) {
  const Implementation* const implementation = competitor.implementation;
  if (implementation == nullptr || implementation->units == nullptr) return;  // a peer has none
  const auto add_units = [&](const Problem& of, const Config& config) {
    for (KernelUnit& unit : implementation->units(of, config, device)) {
      CompileJob job{.unit = std::move(unit), .arch = arch_of(device)};
      if (known_.insert(identity(job)).second) jobs_.push_back(std::move(job));
    }
  };
  if (problem.pass == Pass::bwd) {
    add_units(forward_of(problem), forward_config(*implementation, competitor.config));
  }
  add_units(problem, competitor.config);
}

void CompileJobs::add(const std::vector<Case>& cases, const Device& device) {
  for (const Case& work : cases) {
    for (const Competitor& competitor : work.competitors) {
      if (wants_to_run(competitor)) add(work.problem, competitor, device);
    }
  }
}

}  // namespace attnlab
