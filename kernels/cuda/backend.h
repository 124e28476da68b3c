// What all CUDA implementations share: what no GPU runs, and what their kernels get of a problem.
#pragma once

#include <cuda.h>

#include <string>

#include "kernels/api/implementation.h"
#include "kernels/shared/params.h"

namespace attnlab::cuda {

// The reason why no CUDA kernel runs this, or empty.
std::string unsupported(const Problem& problem, const Device& device);

// Lengths and block pattern are where `tensors` says.
Params make_params(const Problem& problem, const Tensors& tensors);

// A type of kernels/device/storage.cuh, for the text of a unit: "device::F16".
const char* storage_type(Dtype dtype);

// Implementation::launch()'s stream.
inline CUstream as_stream(void* stream) { return static_cast<CUstream>(stream); }

// What lies `bytes` behind `place`.
inline void* behind(void* place, u64 bytes) { return static_cast<char*>(place) + bytes; }

}  // namespace attnlab::cuda
