#include "harness/compile_jobs.h"

#include <set>
#include <tuple>

#include "harness/accounting.h"
#include "harness/run.h"

namespace attnlab {

std::vector<CompileJob> compile_jobs(const Problem& problem, const Competitor& competitor,
                                     const Device& device) {
  std::vector<CompileJob> jobs;
  const Implementation* const implementation = competitor.implementation;
  if (implementation == nullptr || implementation->units == nullptr) return jobs;  // a peer
  const auto add = [&](const Problem& of) {
    for (KernelUnit& unit : implementation->units(of, competitor.config, device)) {
      jobs.push_back({.unit = std::move(unit), .arch = arch_of(device)});
    }
  };
  add(problem);
  if (problem.pass == Pass::bwd) add(forward_of(problem));
  return jobs;
}

std::vector<CompileJob> compile_jobs(const std::vector<Case>& cases, const Device& device) {
  std::vector<CompileJob> jobs;
  std::set<std::tuple<std::string, std::string, std::vector<std::string>>> seen;
  for (const Case& work : cases) {
    for (const Competitor& competitor : work.competitors) {
      if (!wants_to_run(competitor)) continue;
      for (CompileJob& job : compile_jobs(work.problem, competitor, device)) {
        if (seen.emplace(job.arch, job.unit.source, job.unit.options).second) {
          jobs.push_back(std::move(job));
        }
      }
    }
  }
  return jobs;
}

}  // namespace attnlab
