// What a case is at, for those who watch: progress, profilers, and whoever interrupts.
#pragma once

#include <optional>
#include <string>

#include "harness/run.h"
#include "kernels/api/ranges.h"

namespace attnlab {

// Advances the progress by case_weight(work) in all, and is a ProfilerRange named by the problem.
class CaseSteps {
 public:
  CaseSteps(const Case& work, const RunContext& context, Progress& progress);

  // Throws Interrupted if somebody asked for it.
  void stop_if_interrupted() const;

  // The step before it, if any, is over. Throws Interrupted.
  void begin(const std::string& what);
  // Within a step.
  void phase(const std::string& what) { progress_.phase(what); }

  void advance(double weight);
  // What is left of the case's weight.
  double remaining() const { return weight_ - advanced_; }

 private:
  const RunContext& context_;
  Progress& progress_;
  ProfilerRange case_range_;
  std::optional<ProfilerRange> step_range_;
  double weight_;
  double advanced_ = 0.0;
};

}  // namespace attnlab
