#include "harness/case_steps.h"

namespace attnlab {

CaseSteps::CaseSteps(const Case& work, const RunContext& context, Progress& progress)
    : context_(context),
      progress_(progress),
      case_range_(work.problem.id()),
      weight_(case_weight(work)) {
  stop_if_interrupted();
  progress_.begin(work.problem.id());
}

void CaseSteps::stop_if_interrupted() const {
  if (context_.interrupted()) throw Interrupted();
}

void CaseSteps::begin(const std::string& what) {
  stop_if_interrupted();
  step_range_.reset();  // before the next one begins: ranges nest
  step_range_.emplace(what);
  progress_.phase(what);
}

void CaseSteps::advance(double weight) {
  advanced_ += weight;
  progress_.advance(weight);
}

}  // namespace attnlab
