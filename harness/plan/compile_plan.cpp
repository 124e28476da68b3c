#include "harness/plan/compile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/plan/compile_jobs.h"
#include "harness/plan/expand.h"

namespace attnlab {
namespace {

Device device_of(const std::string& arch) try {
  return device_of_arch(arch);
} catch (const std::invalid_argument& error) {
  throw UsageError(fmt::format("--arch: {}", error.what()));
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
  CompileJobs jobs;
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
          jobs.add(work.problem, competitor, device);
        }
      }
    }
  }
  plan.jobs = jobs.all();
  return plan;
}

}  // namespace attnlab
