#include "harness/plan/compile_plan.h"

#include <gtest/gtest.h>

#include "harness/testing/fake_kernels.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Gives each dtype and head dim one unit, which all passes share, and backward passes one more.
std::vector<KernelUnit> units(const Problem& problem, const Config& config, const Device& device) {
  const std::string name = std::string(to_string(problem.dtype)) + "-d" +
                           std::to_string(problem.head_dim) + "-" + config.to_string();
  std::vector<KernelUnit> units = {{.name = name, .source = "on " + device.name}};
  if (problem.pass != Pass::fwd) units.push_back({.name = "bwd-" + name});
  return units;
}

std::string no_bf16(const Problem& problem, const Config&, const Device&) {
  return problem.dtype == Dtype::bf16 ? "bf16 needs another kernel" : "";
}

constexpr Implementation make_compiled() {
  Implementation kernel = fake::make("v2", Backend::cuda, true);
  kernel.unsupported = no_bf16;
  kernel.units = units;
  return kernel;
}
constexpr Implementation kCompiled = make_compiled();

Registry registry() {
  static constexpr const Implementation* kAll[] = {&fake::kNaive, &kCompiled, &fake::kOwn};
  return Registry(kAll);
}

std::vector<std::string> names(const CompilePlan& plan) {
  std::vector<std::string> names;
  for (const CompileJob& job : plan.jobs) names.push_back(job.arch + " " + job.unit.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(CompilePlan, HoldsEachUnitOnceAnArch) {
  Sweep sweep;
  sweep.axes[0].pass = {Pass::fwd, Pass::bwd, Pass::fwdbwd};
  sweep.axes[0].seqlen = {64, 128};
  sweep.axes[0].kernel = {"v2"};
  const CompilePlan plan = plan_compilation(sweep, registry(), {"sm_80", "sm_90"});
  const std::string unit = "f32-d64-block_m=64,block_n=32,stages=2";
  EXPECT_EQ(names(plan),
            (Names{"sm_80 " + unit, "sm_80 bwd-" + unit, "sm_90a " + unit, "sm_90a bwd-" + unit}));
  EXPECT_EQ(plan.jobs[0].unit.source, "on A100");
  EXPECT_EQ(plan.jobs[2].unit.source, "on H100");
  EXPECT_TRUE(plan.refused.empty());
}

TEST(CompilePlan, DefaultsAreEveryPassAndDtype) {
  const CompilePlan plan = plan_compilation(default_compile_sweep(), registry(), {"sm_80"});
  EXPECT_EQ(plan.jobs.size(), 8U);  // f32 and f16, two head dims, forward and backward
  EXPECT_EQ(plan.refused, (Names{"own: is not compiled at run time", "own: f32 only",
                                 "v2: bf16 needs another kernel", "own: no backward"}));
}

TEST(CompilePlan, IsOfCudaWhateverTheSweepNames) {
  Sweep sweep;
  sweep.backend = BackendChoice::cpu;
  sweep.exclude = {{.where = {{"kernel", {"naive"}}}, .reason = "of the CPU"}};
  EXPECT_EQ(plan_compilation(sweep, registry(), {"sm_80"}).jobs.size(), 1U);
}

TEST(CompilePlan, AnUnknownArchIsAUsageError) {
  const std::string said =
      usage_error([] { plan_compilation(default_compile_sweep(), registry(), {"sm_1"}); });
  EXPECT_TRUE(said.starts_with("--arch: there is no arch 'sm_1'")) << said;
}

}  // namespace
}  // namespace attnlab
