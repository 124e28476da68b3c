// Says what a case is at, for those who watch: progress, profilers, and whoever interrupts.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "harness/base/progress.h"
#include "harness/plan/cost.h"
#include "harness/run/context.h"
#include "kernels/api/ranges.h"

namespace attnlab {

// Names a group of cases among those of a sweep, whoever of them runs.
std::string group_id(std::span<const Case> group);

// Follows a group of cases: advances the progress by their case_weight() in all, and is a
// ProfilerRange named by the problem of the first.
class CaseSteps {
 public:
  CaseSteps(std::span<const Case> group, const RunContext& context, Progress& progress);
  ~CaseSteps() { spend(); }
  CaseSteps(const CaseSteps&) = delete;
  CaseSteps& operator=(const CaseSteps&) = delete;

  const std::string& id() const { return id_; }  // group_id()

  // Throws Interrupted if somebody asked for it.
  void stop_if_interrupted() const;

  // Ends the step before, if any, and begins one. `share` is what its seconds are spent on. Throws
  // Interrupted.
  void begin(const std::string& what, double Spending::*share);
  // Counts so many of this step's seconds as spent on something else.
  void move(double seconds, double Spending::*share);
  // Names a part of a step.
  void phase(const std::string& what) { progress_.phase(what); }

  void advance(double weight);
  // Returns what is left of the case's weight.
  double remaining() const { return weight_ - advanced_; }

 private:
  void spend();

  const RunContext& context_;
  Progress& progress_;
  std::string id_;
  ProfilerRange case_range_;
  std::optional<ProfilerRange> step_range_;
  double Spending::*share_ = nullptr;
  std::chrono::steady_clock::time_point step_start_;
  double weight_;
  double advanced_ = 0.0;
};

}  // namespace attnlab
