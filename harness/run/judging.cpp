#include "harness/run/judging.h"

#include <fmt/format.h>

#include "harness/plan/case.h"
#include "harness/record/repro.h"
#include "harness/run/context.h"
#include "harness/run/ending.h"
#include "harness/tensors/host_tensors.h"
#include "reference/oracle.h"
#include "reference/tolerance.h"

namespace attnlab {

reference::Products Judge::products_of_twin(const Entrant& entrant) const {
  if (entrant.peer) return reference::Products::storage;
  const Competitor& competitor = *entrant.competitor;
  return products_of(work_.problem, competitor.implementation, competitor.config);
}

JudgedDropout Judge::dropout_of(const Entrant& entrant) {
  return entrant.peer ? JudgedDropout::none : JudgedDropout::of_the_problem;
}

const reference::References& Judge::references_of(const Entrant& entrant) {
  return references_.of(products_of_twin(entrant), dropout_of(entrant));
}

void Judge::make_references(const Entrant& entrant) {
  if (whole_ != nullptr && whole_->make(products_of_twin(entrant), dropout_of(entrant))) return;
  static_cast<void>(references_of(entrant));
}

void Judge::judge(const Entrant& entrant, const Tensors& tensors, Arena& arena,
                  std::vector<reference::Verdict>& verdicts) {
  std::string failure = named(arena.restore_guards());
  const reference::Products products = products_of_twin(entrant);
  const JudgedDropout dropout = dropout_of(entrant);
  const bool on_device = whole_ != nullptr && whole_->make(products, dropout);
  if (on_device) verdicts = whole_->judge(work_.problem, products, dropout, tensors);
  if (!on_device || context_.verified) {
    const HostTensors host(work_.problem, tensors, inputs_, arena.runtime());
    if (!on_device) {
      verdicts = reference::judge(work_.problem, host.tensors(), references_of(entrant));
    }
    if (context_.verified) context_.verified(entrant.record, host.tensors());
  }
  const std::string changed = entrant.forward ? entrant.forward->changed() : "";
  if (failure.empty() && !changed.empty()) {
    failure = named(fmt::format(
        "the backward changed {}, which its forward left and it may only read", changed));
  }
  for (const reference::Verdict& verdict : verdicts) {
    if (failure.empty() && !verdict.pass) failure = verdict.message;
  }
  fail_if(failure, entrant);
}

void Judge::judge_peer(const Entrant& entrant, const PeerOutputs& outputs,
                       std::vector<reference::Verdict>& verdicts) {
  Problem problem = work_.problem;
  problem.dropout = 0.0;
  const reference::Products products = products_of_twin(entrant);
  if (whole_ != nullptr && whole_->make(products, JudgedDropout::none)) {
    const Tensors left = outputs.attach({});
    verdicts = outputs.runtime().is_host()
                   ? whole_->judge_host(problem, products, JudgedDropout::none, left)
                   : whole_->judge(problem, products, JudgedDropout::none, left);
  } else {
    const HostTensors host(problem, outputs.attach(inputs_), inputs_, outputs.runtime());
    verdicts = reference::judge(problem, host.tensors(), references_of(entrant));
  }
  for (const reference::Verdict& verdict : verdicts) {
    if (!verdict.pass) fail_if(verdict.message, entrant);
  }
}

void Judge::judge_damage(const Entrant& entrant, const std::string& damage) const {
  fail_if(named(damage), entrant);
}

// A failure with the problem's name, as the oracle's messages have it.
std::string Judge::named(const std::string& failure) const {
  return failure.empty() ? failure : failure + "; " + work_.problem.id();
}

// Ends the competitor's way if there is a failure.
void Judge::fail_if(const std::string& failure, const Entrant& entrant) const {
  if (failure.empty()) return;
  throw Ending{Status::failed,
               failure + "; reproduce: " +
                   repro_command(work_, *entrant.competitor, *context_.device, context_.protocol)};
}

}  // namespace attnlab
