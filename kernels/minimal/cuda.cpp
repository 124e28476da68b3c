#include "kernels/minimal/cuda.h"

#include <memory>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/minimal/cpu.h"
#include "kernels/minimal/schedule.h"

namespace attnlab::minimal {
namespace {

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCuda); !reason.empty()) return reason;
  if (problem.pass != Pass::fwd) return "minimal is a teaching kernel: it has no backward pass";
  if (problem.dtype != Dtype::f32) return "minimal is a teaching kernel: it has f32 only";
  if (problem.head_dim > 256) return "head_dim is above 256";
  const u64 needed = shared_bytes(problem.head_dim);
  if (needed > device.shared_memory_per_block_bytes) {
    return "head_dim " + std::to_string(problem.head_dim) + " needs " + std::to_string(needed) +
           " bytes of shared memory a block, this device has " +
           std::to_string(device.shared_memory_per_block_bytes);
  }
  return cuda::unsupported(problem, device);
}

std::uint64_t workspace_bytes(const Problem& /*problem*/, const Config& /*config*/,
                              const Device& /*device*/) {
  return 0;
}

std::uint64_t saved_bytes(const Problem& /*problem*/, const Config& /*config*/) { return 0; }

// Asks for at least one block a multiprocessor: else the compiler saves registers, for more warps
// than shared memory has room for, and spills.
KernelUnit forward_unit(i64 head_dim) {
  const std::string dim = std::to_string(head_dim);
  return {
      .name = "minimal-d" + dim,
      .source = R"(#include "kernels/minimal/forward.cuh"
using namespace attnlab;
constexpr minimal::Config kConfig = {.head_dim = )" +
                dim + R"(};
extern "C" __global__ void __launch_bounds__(minimal::kBlock, 1)
forward(const __grid_constant__ minimal::ForwardArguments arguments) {
  minimal::forward<kConfig>(arguments);
}
)",
      .entries = {
          {.name = "forward", .threads = kBlock, .dynamic_shared_bytes = shared_bytes(head_dim)}}};
}

std::vector<KernelUnit> units(const Problem& problem, const Config& /*config*/,
                              const Device& /*device*/) {
  return {forward_unit(problem.head_dim)};
}

class Prepared : public PreparedKernel {
 public:
  Prepared(const Problem& problem, const Config& /*config*/, const Device& device)
      : problem_(problem),
        module_(cuda::load(forward_unit(problem.head_dim), device)),
        forward_(*module_, forward_unit(problem.head_dim).entries.front()) {}

  void launch(const Tensors& tensors, CUstream stream) const {
    const Params params = cuda::make_params(problem_, tensors);
    const u64 blocks = static_cast<u64>(work_items(row_blocks_grid(params.shape)));
    forward_(stream, blocks,
             {.params = params,
              .gQ = static_cast<const float*>(tensors.q),
              .gK = static_cast<const float*>(tensors.k),
              .gV = static_cast<const float*>(tensors.v),
              .gO = static_cast<float*>(tensors.o),
              .gLse = tensors.lse});
  }

 private:
  Problem problem_;
  std::shared_ptr<const cuda::Module> module_;
  cuda::Kernel<ForwardArguments> forward_;
};

// Counts the same tiles in the same order as on the CPU.
Traffic traffic(const Problem& problem, const Config& config) {
  return kCpu.traffic(problem, config);
}

}  // namespace

constexpr Implementation kCuda = {
    .api_version = kApiVersion,
    .name = "minimal",
    .backend = Backend::cuda,
    .summary = "the teaching kernel: one thread a query row, tiles of 32 keys, online softmax",
    .axes = nullptr,
    .num_axes = 0,
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .units = units,
    .prepare = cuda::prepare<Prepared>,
    .launch = cuda::launch<Prepared>,
    .release = cuda::release<Prepared>,
    .traffic = traffic,
};

}  // namespace attnlab::minimal
