#include "harness/run/case_steps.h"

#include <fmt/format.h>

#include "harness/plan/case.h"

namespace attnlab {

std::string group_id(std::span<const Case> group) {
  const Case& first = group.front();
  return fmt::format("{}/{}/seed{}", first.problem.id(), to_string(first.input_kind), first.seed);
}

CaseSteps::CaseSteps(std::span<const Case> group, const RunContext& context, Progress& progress)
    : context_(context),
      progress_(progress),
      id_(group_id(group)),
      case_range_(group.front().problem.id()),
      weight_(0.0) {
  for (const Case& work : group) weight_ += case_weight(work, context.protocol);
  stop_if_interrupted();
  progress_.begin(group.front().problem.id());
}

void CaseSteps::stop_if_interrupted() const {
  if (context_.interrupted()) throw Interrupted();
}

void CaseSteps::spend() {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> taken = now - step_start_;
  if (share_ != nullptr && context_.spending != nullptr) {
    context_.spending->*share_ += taken.count();
  }
  step_start_ = now;
}

void CaseSteps::move(double seconds, double Spending::*share) {
  if (share_ == nullptr || context_.spending == nullptr) return;
  context_.spending->*share_ -= seconds;
  context_.spending->*share += seconds;
}

void CaseSteps::begin(const std::string& what, double Spending::*share) {
  stop_if_interrupted();
  spend();
  share_ = share;
  step_range_.reset();  // it must end before the next one begins: ranges nest
  step_range_.emplace(what);
  progress_.phase(what);
}

void CaseSteps::advance(double weight) {
  advanced_ += weight;
  progress_.advance(weight);
}

}  // namespace attnlab
