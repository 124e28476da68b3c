#include "kernels/cuda/calculator.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/jit.h"
#include "kernels/cuda/launch.h"

namespace attnlab::cuda {
namespace {

class GpuCalculator : public Calculator {
 public:
  GpuCalculator(const Device& device, KernelUnit unit)
      : unit_(std::move(unit)),
        stream_(as_stream(runtime_of(device).queue())),
        module_(load(unit_, device)),
        blas_(Blas::of(device)),
        workspace_bytes_(Blas::workspace_bytes(device)),
        workspace_(runtime_of(device), workspace_bytes_) {}

  void launch(const std::string& entry, std::uint64_t blocks, const void* arguments) override {
    void* parameters[] = {const_cast<void*>(arguments)};
    cuda::launch(module_->function(entry), entry,
                 {.grid = {.blocks = blocks}, .threads = threads_of(entry)}, stream_, parameters);
  }

  void multiply(const MatrixProduct& product, const double* left, const double* right,
                double* result) override {
    run(product, left, right, result);
  }
  void multiply(const MatrixProduct& product, const float* left, const float* right,
                float* result) override {
    run(product, left, right, result);
  }

 private:
  template <class Scalar>
  void run(const MatrixProduct& product, const Scalar* left, const Scalar* right, Scalar* result) {
    blas_.use(stream_, workspace_.get(), workspace_bytes_);  // others use the handle, too
    blas_.run(product, left, right, result);
  }

  int threads_of(const std::string& name) const {
    for (const KernelEntry& entry : unit_.entries) {
      if (entry.name == name) return entry.threads;
    }
    throw std::runtime_error("unit " + unit_.name + " has no entry '" + name + "'");
  }

  KernelUnit unit_;
  CUstream stream_;
  std::shared_ptr<const Module> module_;
  Blas& blas_;
  u64 workspace_bytes_;
  DeviceBuffer workspace_;
};

}  // namespace

std::unique_ptr<Calculator> make_calculator(const Device& device, const KernelUnit& unit) {
  return std::make_unique<GpuCalculator>(device, unit);
}

}  // namespace attnlab::cuda
