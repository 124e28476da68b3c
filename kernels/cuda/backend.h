// Shares among all CUDA implementations what no GPU runs, and what kernels get of a problem.
#pragma once

#include <string>

#include "kernels/api/implementation.h"
#include "kernels/cuda/handles.h"
#include "kernels/shared/params.h"

namespace attnlab::cuda {

// Returns the reason why no CUDA kernel runs this, or empty.
std::string unsupported(const Problem& problem, const Device& device);

// Fills Params; lengths and block pattern are where `tensors` says.
Params make_params(const Problem& problem, const Tensors& tensors);

// Returns a type of kernels/device/storage.cuh, for the text of a unit: "device::F16".
const char* storage_type(Dtype dtype);

// Converts Implementation::launch()'s stream.
inline CUstream as_stream(void* stream) { return static_cast<CUstream>(stream); }

// Implement Implementation::prepare, launch and release for a kernel all of whose needs are in a
//   class Prepared : public PreparedKernel {
//     Prepared(const Problem&, const Config&, const Device&);
//     void launch(const Tensors&, CUstream);
//   };
template <class Prepared>
PreparedKernel* prepare(const Problem& problem, const Config& config, const Device& device) {
  return new Prepared(problem, config, device);
}
template <class Prepared>
void launch(PreparedKernel* prepared, const Tensors& tensors, void* stream) {
  static_cast<Prepared*>(prepared)->launch(tensors, as_stream(stream));
}
template <class Prepared>
void release(PreparedKernel* prepared) {
  delete static_cast<Prepared*>(prepared);
}

// Returns what lies `bytes` behind `place`.
inline void* behind(void* place, u64 bytes) { return static_cast<char*>(place) + bytes; }

}  // namespace attnlab::cuda
