// Opens the CUDA driver API, from a libcuda, when it is first needed.
#pragma once

#include <cuda.h>

#include <string>

namespace attnlab::cuda {

// This project calls these functions. Their names in the library have suffixes (_v2, ...) that
// cuda.h hides behind macros.
// clang-format off
#define ATTNLAB_DRIVER_FUNCTIONS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGet) \
  X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) \
  X(cuDeviceGetPCIBusId) X(cuDeviceGetUuid) \
  X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) \
  X(cuMemGetAddressRange) X(cuIpcGetMemHandle) \
  X(cuMemHostGetDevicePointer) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) \
  X(cuMemsetD8Async) X(cuMemsetD32Async) X(cuStreamCreate) X(cuStreamQuery) \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuEventCreate) X(cuEventRecord) \
  X(cuEventElapsedTime) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) \
  X(cuGraphDestroy) X(cuGraphGetNodes) X(cuGraphNodeGetType) X(cuGraphKernelNodeGetParams) \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) \
  X(cuFuncSetAttribute) X(cuLaunchKernelEx) X(cuTensorMapEncodeTiled)
// clang-format on

struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name cannot be put in parentheses
#define ATTNLAB_DECLARE(function) decltype(&::function) function = nullptr;
  ATTNLAB_DRIVER_FUNCTIONS(ATTNLAB_DECLARE)
#undef ATTNLAB_DECLARE
  // They are declared in cudaProfiler.h, which not every package of headers has.
  // NOLINTBEGIN(readability-identifier-naming): names of the library
  CUresult (*cuProfilerStart)() = nullptr;
  CUresult (*cuProfilerStop)() = nullptr;
  // NOLINTEND(readability-identifier-naming)
};

// Opens the library and initialises the driver on the first call. Throws MissingLibrary, or
// std::runtime_error with the driver's words.
const Driver& driver();

// Throws std::runtime_error, or DeviceLost where the error is one that no later call survives.
// `what` says what was tried.
void check(CUresult result, const std::string& what);

}  // namespace attnlab::cuda
