#include "harness/plan/compile_jobs.h"

#include <gtest/gtest.h>

#include "harness/testing/fake_kernels.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Gives every pass a unit of its own, of its dtype; the config is an option.
std::vector<KernelUnit> units(const Problem& problem, const Config& config, const Device&) {
  const std::string name = std::string(to_string(problem.pass)) + "-" + to_string(problem.dtype);
  return {{.name = name,
           .source = "source of " + name,
           .entries = {{.name = "entry", .threads = 128}},
           .options = {config.to_string()}}};
}

constexpr Implementation make_compiled() {
  Implementation kernel = fake::make("own", Backend::cuda, true);
  kernel.units = units;
  return kernel;
}
constexpr Implementation kCompiled = make_compiled();

const Device kHopper = {.backend = Backend::cuda, .name = "H100", .compute_capability = 90};
const Device kAmpere = {.backend = Backend::cuda, .name = "A100", .compute_capability = 80};

Competitor competitor(const Implementation& kernel = kCompiled) {
  return {.kernel = "own",
          .backend = Backend::cuda,
          .implementation = &kernel,
          .config = default_config(kernel)};
}

Texts names(const CompileJobs& jobs) {
  Texts names;
  for (const CompileJob& job : jobs.all()) names.push_back(job.arch + " " + job.unit.name);
  return names;
}

TEST(CompileJobs, ABackwardAlsoCompilesTheForwardBeforeIt) {
  CompileJobs jobs;
  jobs.add({.pass = Pass::bwd}, competitor(), kHopper);
  EXPECT_EQ(names(jobs), (Texts{"sm_90a fwd-f32", "sm_90a bwd-f32"}));
  CompileJobs of_both;
  of_both.add({.pass = Pass::fwdbwd}, competitor(), kHopper);
  EXPECT_EQ(names(of_both), Texts{"sm_90a fwdbwd-f32"}) << "its forward is part of it";
}

TEST(CompileJobs, TheForwardBeforeABackwardHasItsOwnConfig) {
  Implementation kernel = kCompiled;
  kernel.forward_config = [](const Config& config) {
    Config forward = config;
    forward.set("stages", 1);
    return forward;
  };
  CompileJobs jobs;
  jobs.add({.pass = Pass::bwd}, competitor(kernel), kHopper);
  ASSERT_EQ(names(jobs), (Texts{"sm_90a fwd-f32", "sm_90a bwd-f32"}));
  EXPECT_EQ(jobs.all()[0].unit.options, Texts{"block_m=64,block_n=32,stages=1"});
  EXPECT_EQ(jobs.all()[1].unit.options, Texts{"block_m=64,block_n=32,stages=2"});
}

TEST(CompileJobs, EachJobOnce) {
  CompileJobs jobs;
  for (int time = 0; time < 2; ++time) {
    jobs.add({.pass = Pass::fwd, .seqlen_q = 1 + time}, competitor(), kHopper);
    jobs.add({.pass = Pass::bwd}, competitor(), kHopper);
  }
  EXPECT_EQ(names(jobs), (Texts{"sm_90a fwd-f32", "sm_90a bwd-f32"}));
  jobs.add({}, competitor(), kAmpere);
  EXPECT_EQ(names(jobs).back(), "sm_80 fwd-f32");
  EXPECT_EQ(jobs.all().size(), 3u);
}

// Units of one name are different jobs if the compiler, or the judge of its log, sees a difference.
TEST(CompileJobs, WhatDiffersAtAllIsAnotherJob) {
  static KernelUnit unit;
  static constexpr auto kGiveUnit = [](const Problem&, const Config&, const Device&) {
    return std::vector<KernelUnit>{unit};
  };
  Implementation kernel = kCompiled;
  kernel.units = kGiveUnit;
  CompileJobs jobs;
  const auto count_with = [&](const auto& change) {
    unit = {.name = "unit", .source = "source", .entries = {{.name = "e"}}};
    change();
    jobs.add({}, competitor(kernel), kHopper);
    return jobs.all().size();
  };
  EXPECT_EQ(count_with([] {}), 1u);
  EXPECT_EQ(count_with([] {}), 1u);
  EXPECT_EQ(count_with([] { unit.source = "other"; }), 2u);
  EXPECT_EQ(count_with([] { unit.options = {"-Dx"}; }), 3u);
  EXPECT_EQ(count_with([] { unit.must_be_clean = false; }), 4u);
  EXPECT_EQ(count_with([] { unit.entries[0].threads = 64; }), 5u);
  EXPECT_EQ(count_with([] { unit.entries[0].dynamic_shared_bytes = 64; }), 6u);
  EXPECT_EQ(count_with([] { unit.name = "other"; }), 7u);
}

TEST(CompileJobs, NothingOfPeersAndOfKernelsThatAreNotCompiled) {
  CompileJobs jobs;
  jobs.add({}, {.kernel = "torch:math", .backend = Backend::cuda}, kHopper);
  jobs.add({}, competitor(fake::kOwn), kHopper);
  EXPECT_EQ(names(jobs), Texts{});
}

TEST(CompileJobs, OfCasesOnlyWhatWantsToRun) {
  Case work;
  work.competitors = {competitor(), competitor(), competitor()};
  work.competitors[0].config.set("block_m", 16);
  work.competitors[1].unsupported = "no";
  work.competitors[2].skipped = "too slow";
  CompileJobs jobs;
  jobs.add({work, work}, kHopper);
  ASSERT_EQ(names(jobs), Texts{"sm_90a fwd-f32"});
  EXPECT_EQ(jobs.all()[0].unit.options, Texts{"block_m=16,block_n=32,stages=2"});
}

}  // namespace
}  // namespace attnlab
