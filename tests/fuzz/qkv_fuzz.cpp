#include <exception>

#include "harness/base/errors.h"
#include "harness/tensors/safetensors.h"
#include "tests/fuzz/fuzz.h"

namespace attnlab::fuzz {

void read_input(const std::filesystem::path& file) {
  std::exception_ptr refused;
  for (const Layout layout : {Layout::bshd, Layout::bhsd, Layout::packed}) {
    try {
      const QkvTensors tensors = load_qkv(file, layout);
      const Problem& problem = tensors.problem;
      require(invalid(problem).empty(), "the problem is invalid");
      const auto size = static_cast<std::uint64_t>(size_bytes(problem.dtype));
      const std::uint64_t like_q = static_cast<std::uint64_t>(problem.elements_q()) * size;
      const std::uint64_t like_k = static_cast<std::uint64_t>(problem.elements_k()) * size;
      require(tensors.q.size() == like_q && tensors.k.size() == like_k &&
                  tensors.v.size() == like_k &&
                  (tensors.dout.empty() || tensors.dout.size() == like_q),
              "a tensor's bytes are not those of the problem");
    } catch (const UsageError&) {
      refused = std::current_exception();
    }
  }
  if (refused) std::rethrow_exception(refused);
}

}  // namespace attnlab::fuzz
