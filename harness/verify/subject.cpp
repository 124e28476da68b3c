#include "harness/verify/subject.h"

#include <utility>

namespace attnlab::verify {

Subject::Subject(const Problem& problem, InputKind kind, std::uint64_t seed, const Device& device,
                 Edit edit, std::int64_t budget)
    : problem_(problem),
      kind_(kind),
      seed_(seed),
      threads_(device.threads),
      budget_(budget),
      edit_(std::move(edit)),
      arena_(runtime_of(device)) {
  problem_.pass = Pass::fwd;
}

const Inputs& Subject::inputs() {
  if (!inputs_) {
    inputs_.emplace(arena_, problem_, kind_, seed_, threads_);
    if (edit_) edit_(*inputs_);
    inputs_->seal();
  }
  return *inputs_;
}

void Subject::rewrite(const Edit& edit) {
  inputs();
  edit(*inputs_);
  inputs_->seal();
  references_.reset();
}

const reference::References& Subject::references(reference::Products products) {
  if (!references_) {
    // The rows are chosen as for both passes, so that a check that runs alone sees the same ones.
    Problem both = problem_;
    both.pass = Pass::fwdbwd;
    reference::Samples samples = reference::choose_samples(both, budget_, seed_);
    if (problem_.pass == Pass::fwd) samples.columns.clear();
    references_.emplace(problem_, inputs().host(), std::move(samples), threads_);
  }
  return references_->of(products);
}

}  // namespace attnlab::verify
