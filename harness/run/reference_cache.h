// Keeps what the oracle says of one problem, in the ways in which competitors need it: each is made
// when first asked for.
#pragma once

#include <map>
#include <utility>

#include "reference/oracle.h"

namespace attnlab {

// none is for peers: they draw dropout masks of their own, so they are judged without dropout.
enum class JudgedDropout : std::uint8_t { of_the_problem, none };

class ReferenceCache {
 public:
  // `inputs` lie in memory of this process and outlive the object.
  ReferenceCache(const Problem& problem, const Tensors& inputs, reference::Samples samples,
                 int threads)
      : problem_(problem), inputs_(inputs), samples_(std::move(samples)), threads_(threads) {}

  // Takes these samples from now on. Returns false if they are those that it has; else what was
  // made is forgotten.
  bool look_at(reference::Samples samples);

  const reference::References& of(reference::Products products,
                                  JudgedDropout dropout = JudgedDropout::of_the_problem);

 private:
  using Key = std::pair<reference::Products, bool>;  // whether with dropout

  Problem problem_;
  Tensors inputs_;
  reference::Samples samples_;
  int threads_;
  std::map<Key, reference::References> made_;
};

}  // namespace attnlab
