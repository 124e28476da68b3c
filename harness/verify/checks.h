// Plans the checks of a run, in the order in which they are made.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/compile_jobs.h"
#include "harness/verify/options.h"
#include "harness/verify/trial.h"

namespace attnlab::verify {

struct Check {
  const Implementation* kernel = nullptr;
  Part part = Part::shapes;
  std::string name;
  std::optional<Pass> pass;   // of what runs
  double weight = 0.0;        // estimated cost, in FLOPs
  std::function<void()> run;  // throws Failure; empty: skipped
  std::string skipped;        // why
};

class Plan {
 public:
  explicit Plan(const Options& options);

  const Options& options() const { return options_; }
  const Device& device() const { return *options_.device; }
  // Returns the kernels of the device's backend.
  const std::vector<const Implementation*>& kernels() const { return kernels_; }

  // Returns "v2/shapes/<rest>".
  static std::string name_of(const Implementation& kernel, Part part, const std::string& rest);
  // Returns whether a check of this name is asked for.
  bool wants(const std::string& name) const;

  // All of these leave out checks that nobody asked for.
  void skip(const Implementation& kernel, Part part, const std::string& rest,
            const std::string& reason);
  void add(const Setup& setup, Part part, const std::string& rest, double weight,
           std::function<void()> run);
  // Notes that a check which is asked for launches the setup on the problem.
  void launches(const Setup& setup, const Problem& problem);
  // Adds one launch, judged by the oracle; skips it with the reason if the setup is unsupported.
  void add_judged(const Setup& setup, Part part, const std::string& rest,
                  const std::shared_ptr<Subject>& subject);

  // Returns what must be compiled for all launches.
  const std::vector<CompileJob>& needed() const { return needed_.all(); }
  std::vector<Check> take() { return std::move(checks_); }

 private:
  const Options& options_;
  std::vector<const Implementation*> kernels_;
  std::vector<Check> checks_;
  CompileJobs needed_;
};

// Estimates the cost of a launch and its share of the oracle, in FLOPs.
double weight_of(const Problem& problem);

// Returns the kernel's defaults.
Setup default_setup(const Implementation& kernel, const Device& device, Pass pass);

// Returns defaults with as many passes as the kernel has for the problem: both, or the forward.
Setup widest_setup(const Implementation& kernel, const Device& device, const Problem& problem);

// Sets tiles of these sizes, if the kernel has the axes block_m and block_n.
bool has_blocks(const Implementation& kernel);
Setup with_blocks(Setup setup, std::int64_t block_m, std::int64_t block_n);

// Sets tiles so small that short problems have several, if the kernel has tiles and supports one of
// the sizes that are tried.
Setup small_tiles(const Setup& setup, const Problem& problem);

// Sets sums to a fixed order, where the kernel has a choice.
Setup in_fixed_order(Setup setup);

// Each part adds its checks.
void plan_shapes(Plan& plan);
void plan_random(Plan& plan);
void plan_properties(Plan& plan);
void plan_repeats(Plan& plan);

}  // namespace attnlab::verify
