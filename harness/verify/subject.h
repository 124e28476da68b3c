// Holds a problem with its inputs and what the oracle says of them, made when first asked for and
// shared by all kernels, passes and configs that are put to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "harness/run/reference_cache.h"
#include "harness/tensors/arena.h"
#include "harness/tensors/inputs.h"

namespace attnlab::verify {

class Subject {
 public:
  using Edit = std::function<void(Inputs&)>;

  // The oracle does this many multiply-adds for one problem: enough for every row of a short one.
  // results/README.md says how long problems are sampled.
  static constexpr std::int64_t kBudget = std::int64_t{1} << 23;

  // `problem` says nothing of the pass. Its inputs are drawn from `seed`, then changed by `edit`,
  // and lie in memory of `device`, whose threads the oracle uses.
  Subject(const Problem& problem, InputKind kind, std::uint64_t seed, const Device& device,
          Edit edit = {}, std::int64_t budget = kBudget);

  // Gives the oracle gradients from now on. Must come before inputs() and references().
  void wants_backward() { problem_.pass = Pass::fwdbwd; }

  // Writes inputs anew where they lie; what was launched before knows nothing of it.
  void rewrite(const Edit& edit);

  const Problem& problem() const { return problem_; }
  Arena& arena() { return arena_; }
  const Inputs& inputs();
  // Returns all rows and keys where the budget allows, else some that depend on the problem alone;
  // for kernels whose products are of this precision.
  const reference::References& references(reference::Products products);

 private:
  Problem problem_;
  InputKind kind_;
  std::uint64_t seed_;
  int threads_;
  std::int64_t budget_;
  Edit edit_;
  Arena arena_;
  std::optional<Inputs> inputs_;
  std::optional<ReferenceCache> references_;
};

}  // namespace attnlab::verify
