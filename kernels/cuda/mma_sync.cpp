#include "kernels/cuda/mma_sync.h"

#include "kernels/cuda/backend.h"

namespace attnlab::cuda {

std::string unsupported_by_mma_sync(const Problem& problem, const Device& device) {
  if (device.compute_capability < 80) {
    return "it needs compute capability 8.0 or higher, this device has " +
           std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10);
  }
  if (problem.dtype == Dtype::f32) return "it multiplies in 16 bits: dtype f16 or bf16";
  if (problem.head_dim > kLargestHeadDim) return "head_dim is above 256";
  if (problem.head_dim % 8 != 0) return "head_dim must be a multiple of 8: rows of 16-byte chunks";
  return unsupported(problem, device);
}

i32 padded_head_dim(const Problem& problem) {
  const i32 smallest = problem.drops() ? 64 : 32;  // one kernel fewer of each type
  for (const i32 padded : {32, 64, 96, 128, 192}) {
    if (padded >= smallest && problem.head_dim <= padded) return padded;
  }
  return kLargestHeadDim;
}

}  // namespace attnlab::cuda
