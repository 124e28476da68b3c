#include "kernels/cuda/driver.h"

#include <exception>
#include <stdexcept>

#include "kernels/api/runtime.h"
#include "kernels/cuda/library.h"

namespace attnlab::cuda {
namespace {

std::string words(const Driver& functions, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  functions.cuGetErrorName(result, &name);
  functions.cuGetErrorString(result, &text);
  return std::string(name == nullptr ? "unknown error" : name) + " (" +
         std::to_string(static_cast<int>(result)) + ")" +
         (text == nullptr ? "" : std::string(": ") + text);
}

Driver open_driver() {
  constexpr const char* kRemedy =
      "It comes with NVIDIA's driver: install that, or, in a container, start it with the GPU "
      "handed in (--gpus all)";
  const Library library({"libcuda.so.1"}, kRemedy);
  Driver functions;
// Goes through a second macro, so that cuda.h's own put the version behind the name.
#define ATTNLAB_TEXT(name) #name
#define ATTNLAB_BIND(function) library.bind(functions.function, ATTNLAB_TEXT(function));
  ATTNLAB_DRIVER_FUNCTIONS(ATTNLAB_BIND)
#undef ATTNLAB_BIND
#undef ATTNLAB_TEXT
  library.bind(functions.cuProfilerStart, "cuProfilerStart");
  library.bind(functions.cuProfilerStop, "cuProfilerStop");
  const CUresult result = functions.cuInit(0);
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error("the CUDA driver does not start: " + words(functions, result) +
                             "; see what nvidia-smi says");
  }
  return functions;
}

// Returns whether all later calls in this process fail. Source: CUDA driver API, CUresult: those
// that say "the context must be destroyed", "the process must be terminated and relaunched".
bool is_final(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
  }
}

}  // namespace

const Driver& driver() {
  struct Opened {
    Driver functions;
    std::exception_ptr error;
  };
  // A driver that is not there stays away: folders are searched once, not at every call.
  static const Opened opened = [] {
    try {
      return Opened{.functions = open_driver(), .error = nullptr};
    } catch (...) {
      return Opened{.functions = {}, .error = std::current_exception()};
    }
  }();
  if (opened.error) std::rethrow_exception(opened.error);
  return opened.functions;
}

void check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const std::string message = what + ": " + words(driver(), result);
  if (result == CUDA_ERROR_LAUNCH_TIMEOUT) throw DeviceLost(DeviceLost::Cause::hang, message);
  if (is_final(result)) throw DeviceLost(DeviceLost::Cause::error, message);
  throw std::runtime_error(message);
}

}  // namespace attnlab::cuda
