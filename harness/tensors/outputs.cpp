#include "harness/tensors/outputs.h"

#include "harness/plan/accounting.h"

namespace attnlab {

Outputs::Outputs(Arena& arena, const std::string& owner, const Problem& problem,
                 const Implementation& kernel, std::uint64_t saved_bytes) {
  const auto allocate = [&](const char* name, std::uint64_t bytes) {
    return buffers_.allocate(arena, name, owner, bytes);
  };
  if (problem.pass != Pass::bwd) {
    tensors_.o = allocate("o", bytes_like_q(problem));
    if (writes_lse(kernel, problem)) {
      tensors_.lse = static_cast<float*>(allocate("lse", bytes_of_lse(problem)));
    }
    if (saved_bytes > 0) tensors_.saved = allocate("saved", saved_bytes);
  }
  if (problem.pass != Pass::fwd) {
    tensors_.dq = allocate("dq", bytes_like_q(problem));
    tensors_.dk = allocate("dk", bytes_like_k(problem));
    tensors_.dv = allocate("dv", bytes_like_k(problem));
  }
}

Tensors Outputs::attach(Tensors tensors) const {
  if (tensors_.o != nullptr) {
    tensors.o = tensors_.o;
    tensors.lse = tensors_.lse;
    tensors.saved = tensors_.saved;
  }
  if (tensors_.dq != nullptr) {
    tensors.dq = tensors_.dq;
    tensors.dk = tensors_.dk;
    tensors.dv = tensors_.dv;
  }
  return tensors;
}

}  // namespace attnlab
