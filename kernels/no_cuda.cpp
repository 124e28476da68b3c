// Takes the place of kernels/cuda where the build has no CUDA headers.
#include <stdexcept>

#include "kernels/api/compiler.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"

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

std::string cubin_of(const CompileJob&) { fail(); }

std::string find_cuda_program(const std::string&) { fail(); }

int run_compile_worker() { fail(); }

std::map<std::string, std::string> kernel_texts() { return {}; }

// These prepare and launch the kernels of a GPU, which this build can count all the same.
namespace cuda {

std::shared_ptr<const Module> load(const KernelUnit&, const Device&) { fail(); }

Module::~Module() = default;
CUfunction Module::function(const std::string&) const { fail(); }

void launch(CUfunction, const std::string&, const LaunchShape&, CUstream, void**) { fail(); }
void clear_bytes(CUstream, void*, u64, const std::string&) { fail(); }
void clear_words(CUstream, void*, u64, const std::string&) { fail(); }

Blas& Blas::of(const Device&) { fail(); }
void Blas::use(CUstream, void*, u64) { fail(); }
void Blas::run(const Gemm&, const GemmTypes&, const void*, const void*, void*) { fail(); }
void Blas::run(const Gemm&, const GemmTypes&, const void*) { fail(); }

TensorMapSpec slab_of(const TileTensor&) { fail(); }
TensorMap make_tensor_map(const TensorMapSpec&) { fail(); }

}  // namespace cuda
}  // namespace attnlab
