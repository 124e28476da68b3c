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

reference::Products Judge::products_of_twin(const CompetitorRun& run) const {
  // Nobody knows whether a peer promotes; FlashAttention-3, the one that is known, does not.
  if (run.peer && work_.problem.is_e4m3()) return reference::Products::unpromoted;
  const Competitor& competitor = *run.competitor;
  return products_of(work_.problem, competitor.implementation, competitor.config);
}

JudgedDropout Judge::dropout_of(const CompetitorRun& run) {
  return run.peer ? JudgedDropout::none : JudgedDropout::of_the_problem;
}

const reference::References& Judge::references_of(const CompetitorRun& run) {
  return references_.of(products_of_twin(run), dropout_of(run));
}

void Judge::make_references(const CompetitorRun& run) {
  if (whole_ != nullptr && whole_->make(products_of_twin(run), dropout_of(run))) return;
  static_cast<void>(references_of(run));
}

void Judge::judge(const CompetitorRun& run, const Tensors& tensors, Arena& arena,
                  std::vector<reference::Verdict>& verdicts) {
  std::string failure = named(arena.restore_guards());
  const reference::Products products = products_of_twin(run);
  const JudgedDropout dropout = dropout_of(run);
  const bool on_device = whole_ != nullptr && whole_->make(products, dropout);
  if (on_device) verdicts = whole_->judge(work_.problem, products, dropout, tensors);
  if (!on_device || context_.verified) {
    const HostTensors host(work_.problem, tensors, inputs_, arena.runtime());
    if (!on_device) {
      verdicts = reference::judge(work_.problem, host.tensors(), references_of(run));
    }
    if (context_.verified) context_.verified(run.record, host.tensors());
  }
  const std::string changed = run.forward ? run.forward->changed() : "";
  if (failure.empty() && !changed.empty()) {
    failure = named(fmt::format(
        "the backward changed {}, which its forward left and it may only read", changed));
  }
  for (const reference::Verdict& verdict : verdicts) {
    if (failure.empty() && !verdict.pass) failure = verdict.message;
  }
  fail_if(failure, run);
}

void Judge::judge_peer(const CompetitorRun& run, const PeerOutputs& outputs,
                       std::vector<reference::Verdict>& verdicts) {
  Problem problem = work_.problem;
  problem.dropout = 0.0;
  const reference::Products products = products_of_twin(run);
  if (whole_ != nullptr && whole_->make(products, JudgedDropout::none)) {
    const Tensors left = outputs.attach({});
    verdicts = outputs.runtime().is_host()
                   ? whole_->judge_host(problem, products, JudgedDropout::none, left)
                   : whole_->judge(problem, products, JudgedDropout::none, left);
  } else {
    const HostTensors host(problem, outputs.attach(inputs_), inputs_, outputs.runtime());
    verdicts = reference::judge(problem, host.tensors(), references_of(run));
  }
  for (const reference::Verdict& verdict : verdicts) {
    if (!verdict.pass) fail_if(verdict.message, run);
  }
}

void Judge::judge_damage(const CompetitorRun& run, const std::string& damage) const {
  fail_if(named(damage), run);
}

// Adds the problem's name to a failure, as the oracle's messages have it.
std::string Judge::named(const std::string& failure) const {
  return failure.empty() ? failure : failure + "; " + work_.problem.id();
}

// Ends the competitor's way if there is a failure.
void Judge::fail_if(const std::string& failure, const CompetitorRun& run) const {
  if (failure.empty()) return;
  throw Ending{Status::failed,
               failure + "; reproduce: " +
                   repro_command(work_, *run.competitor, *context_.device, context_.protocol)};
}

}  // namespace attnlab
