#include "harness/tensors/outputs.h"

#include <fmt/format.h>

#include "harness/plan/accounting.h"

namespace attnlab {

Outputs::Outputs(Arena& arena, const std::string& owner, const Problem& problem,
                 const Implementation& kernel, std::uint64_t saved_bytes)
    : runtime_(arena.runtime()) {
  const auto allocate = [&](const char* name, std::uint64_t bytes) {
    return buffers_.allocate(arena, name, owner, bytes);
  };
  const auto like_an_input = [&](const char* name, std::uint64_t bytes) {
    void* const data = allocate(name, bytes);
    written_.push_back({name, data, bytes, static_cast<int>(size_bytes(problem.output_dtype()))});
    return data;
  };
  if (problem.pass != Pass::bwd) {
    tensors_.o = like_an_input("o", bytes_of_o(problem));
    if (writes_lse(kernel, problem)) {
      const std::uint64_t bytes = bytes_of_lse(problem);
      tensors_.lse = static_cast<float*>(allocate("lse", bytes));
      const std::int64_t rows = problem.elements_q() / problem.head_dim;
      written_.push_back({"lse", tensors_.lse, bytes, sizeof(float),
                          static_cast<std::uint64_t>(problem.elements_lse() - rows)});
    }
    if (saved_bytes > 0) tensors_.saved = allocate("saved", saved_bytes);
  }
  if (problem.pass != Pass::fwd) {
    tensors_.dq = like_an_input("dq", bytes_like_q(problem));
    tensors_.dk = like_an_input("dk", bytes_like_k(problem));
    tensors_.dv = like_an_input("dv", bytes_like_k(problem));
  }
}

std::string Outputs::unwritten(std::uint8_t byte) const {
  for (const Written& tensor : written_) {
    const std::uint64_t left =
        runtime_.count_filled(tensor.data, byte, tensor.bytes, tensor.element_bytes);
    if (left <= tensor.may_stay) continue;
    return fmt::format(
        "{} of {} elements of {}", left - tensor.may_stay,
        tensor.bytes / static_cast<std::uint64_t>(tensor.element_bytes) - tensor.may_stay,
        tensor.name);
  }
  return "";
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
