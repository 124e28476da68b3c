#include "harness/compile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "harness/errors.h"

namespace attnlab {
namespace {

Device device_of(const std::string& arch) try {
  return device_of_arch(arch);
} catch (const std::invalid_argument& error) {
  throw UsageError(fmt::format("--arch: {}", error.what()));
}

// All that a compilation depends on, and how its result is judged.
std::string identity(const CompileJob& job) {
  std::string text = fmt::format("{}\n{}\n{}\n", job.arch, job.unit.name, job.unit.must_be_clean);
  for (const KernelEntry& entry : job.unit.entries) {
    text += fmt::format("{} {} {}\n", entry.name, entry.threads, entry.dynamic_shared_bytes);
  }
  for (const std::string& option : job.unit.options) text += option + "\n";
  return text + job.unit.source;
}

}  // namespace

Sweep default_compile_sweep() {
  Sweep sweep;
  sweep.name = "defaults";
  sweep.source = "the default configs";
  Axes& axes = sweep.axes.front();
  axes.pass = {Pass::fwd, Pass::bwd, Pass::fwdbwd};
  axes.dtype = {Dtype::f32, Dtype::f16, Dtype::bf16};
  axes.head_dim = {64, 128};
  return sweep;
}

CompilePlan plan_compilation(Sweep sweep, const Registry& registry,
                             const std::vector<std::string>& archs) {
  sweep.backend = BackendChoice::cuda;
  sweep.overridden = true;  // an exclusion may speak of CPU kernels
  CompilePlan plan;
  std::set<std::string> known;
  const auto refuse = [&](const std::string& kernel, const std::string& why) {
    const std::string reason = fmt::format("{}: {}", kernel, why);
    if (std::find(plan.refused.begin(), plan.refused.end(), reason) == plan.refused.end()) {
      plan.refused.push_back(reason);
    }
  };
  for (const std::string& name : archs) {
    const Device device = device_of(name);
    for (const Case& work : expand(sweep, registry, device)) {
      for (const Competitor& competitor : work.competitors) {
        const bool runs = competitor.skipped.empty() && competitor.unsupported.empty();
        if (!runs) {
          refuse(competitor.kernel, competitor.skipped + competitor.unsupported);
        } else if (competitor.implementation->units == nullptr) {
          refuse(competitor.kernel, "is not compiled at run time");
        } else {
          for (KernelUnit& unit :
               competitor.implementation->units(work.problem, competitor.config, device)) {
            CompileJob job{.unit = std::move(unit), .arch = arch_of(device)};
            if (known.insert(identity(job)).second) plan.jobs.push_back(std::move(job));
          }
        }
      }
    }
  }
  return plan;
}

}  // namespace attnlab
