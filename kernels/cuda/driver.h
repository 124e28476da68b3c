// The CUDA driver API, from a libcuda that is opened when it is first needed.
#pragma once

#include <cuda.h>

#include <string>

namespace attnlab::cuda {

// The functions that this project calls. Their names in the library have suffixes (_v2, ...) that
// cuda.h hides behind macros.
#define ATTNLAB_DRIVER_FUNCTIONS(X)                                                               \
  X(cuInit)                                                                                       \
  X(cuDriverGetVersion)                                                                           \
  X(cuGetErrorName)                                                                               \
  X(cuGetErrorString) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(                    \
      cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent)    \
      X(cuCtxSynchronize) X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc)            \
          X(cuMemFreeHost) X(cuMemHostGetDevicePointer) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) \
              X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuMemsetD32Async) X(cuStreamCreate)       \
                  X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamBeginCapture)                 \
                      X(cuStreamEndCapture) X(cuEventCreate) X(cuEventRecord) X(cuEventQuery)     \
                          X(cuEventElapsedTime) X(cuEventDestroy) X(cuGraphInstantiateWithFlags)  \
                              X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)            \
                                  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction)    \
                                      X(cuFuncGetAttribute) X(cuFuncSetAttribute)                 \
                                          X(cuLaunchKernelEx)                                     \
                                              X(cuOccupancyMaxActiveBlocksPerMultiprocessor)      \
                                                  X(cuTensorMapEncodeTiled)

struct Driver {
#define ATTNLAB_DECLARE(function) decltype(&::function) function = nullptr;
  ATTNLAB_DRIVER_FUNCTIONS(ATTNLAB_DECLARE)
#undef ATTNLAB_DECLARE
};

// Opens the library and initialises the driver on the first call. Throws MissingLibrary, or
// std::runtime_error with the driver's words.
const Driver& driver();

// Throws std::runtime_error, or DeviceLost where the error is one that no later call survives.
// `what` says what was tried.
void check(CUresult result, const std::string& what);

}  // namespace attnlab::cuda
