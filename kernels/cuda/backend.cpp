#include "kernels/cuda/backend.h"

namespace attnlab::cuda {

std::string unsupported(const Problem& problem, const Device& device) {
  if (device.compute_capability < 75) {
    return "it needs compute capability 7.5 or higher, this device has " +
           std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10);
  }
  if (!problem.has_pattern()) return "";
  return unsupported_pattern(*problem.mask.blocks, problem.seqlen_q, problem.seqlen_k);
}

Params make_params(const Problem& problem, const Tensors& tensors) {
  return {.shape = make_shape(problem),
          .dropout = make_dropout(problem.dropout, problem.seed),
          .left = problem.mask.left(),
          .right = problem.mask.right(),
          .blocks = view_block_pattern(problem, tensors.block_pattern),
          .keys = problem.lengths.kind == LengthsKind::padding ? tensors.keys : nullptr,
          .cu_seqlens_q = problem.layout == Layout::packed ? tensors.cu_seqlens_q : nullptr,
          .cu_seqlens_k = problem.layout == Layout::packed ? tensors.cu_seqlens_k : nullptr};
}

const char* storage_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: break;
    case Dtype::e4m3: return "device::E4m3";
    case Dtype::f16: return "device::F16";
    case Dtype::bf16: return "device::Bf16";
  }
  return "device::F32";
}

}  // namespace attnlab::cuda
