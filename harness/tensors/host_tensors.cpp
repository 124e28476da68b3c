#include "harness/tensors/host_tensors.h"

#include "harness/plan/accounting.h"

namespace attnlab {

HostTensors::HostTensors(const Problem& problem, const Tensors& tensors, const Tensors& inputs,
                         Runtime& runtime)
    : tensors_(inputs) {
  const auto fetch = [&]<class T>(T* data, std::uint64_t bytes) -> T* {
    if (data == nullptr || runtime.is_host()) return data;
    std::vector<std::byte>& copy = copies_.emplace_back(bytes);
    runtime.read(copy.data(), data, bytes);
    return reinterpret_cast<T*>(copy.data());
  };
  const std::uint64_t like_q = bytes_like_q(problem);
  const std::uint64_t like_k = bytes_like_k(problem);
  tensors_.o = fetch(static_cast<std::byte*>(tensors.o), bytes_of_o(problem));
  tensors_.lse = fetch(tensors.lse, bytes_of_lse(problem));
  tensors_.dq = fetch(static_cast<std::byte*>(tensors.dq), like_q);
  tensors_.dk = fetch(static_cast<std::byte*>(tensors.dk), like_k);
  tensors_.dv = fetch(static_cast<std::byte*>(tensors.dv), like_k);
}

}  // namespace attnlab
