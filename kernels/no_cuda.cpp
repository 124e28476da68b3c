// In place of kernels/cuda where the build has no CUDA headers.
#include <stdexcept>

#include "kernels/api/compiler.h"

namespace attnlab {
namespace {

[[noreturn]] void fail() {
  throw std::runtime_error(
      "this build has no CUDA: run scripts/setup.sh --cuda, which brings CUDA's headers and "
      "libraries into .cuda, then configure and build again");
}

}  // namespace

std::vector<Compilation> compile_ahead(std::span<const CompileJob> jobs, int,
                                       const std::function<void(const Compilation&)>&) {
  if (jobs.empty()) return {};
  fail();
}

int run_compile_worker() { fail(); }

}  // namespace attnlab
