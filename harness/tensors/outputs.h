// The outputs of one competitor.
#pragma once

#include <string>
#include <vector>

#include "harness/tensors/named_buffers.h"
#include "kernels/api/implementation.h"

namespace attnlab {

// What a pass writes, in an arena: o, lse and what the kernel saves for its backward, if the pass
// has a forward; dQ, dK, dV, if it has a backward.
class Outputs {
 public:
  // What `kernel` writes; `saved_bytes`: what it saves beside o and lse; 0: nothing.
  Outputs(Arena& arena, const std::string& owner, const Problem& problem,
          const Implementation& kernel, std::uint64_t saved_bytes);

  // The tensors with these outputs filled in.
  Tensors attach(Tensors tensors) const;

  // Remembers the contents: from now on they are inputs of a backward.
  void seal() { buffers_.seal(); }
  // The name of a tensor that changed since, "" if none did.
  std::string changed() const { return buffers_.changed(); }
  // The names of the tensors whose bits are not those of the same tensor of `other`.
  std::vector<std::string> different(const Outputs& other) const {
    return buffers_.different(other.buffers_);
  }

 private:
  NamedBuffers buffers_;
  Tensors tensors_;  // nothing but these outputs
};

}  // namespace attnlab
