#include "kernels/cuda/nvml.h"

#include <stdexcept>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/library.h"

namespace attnlab::cuda {
namespace {

void check_nvml(const Nvml& functions, NvmlReturn result, const std::string& what,
                const char* remedy) {
  if (result == kNvmlSuccess) return;
  const char* words = functions.nvmlErrorString(result);
  throw std::runtime_error(what + ": " + (words == nullptr ? "unknown error" : words) + " (" +
                           std::to_string(result) + "). " + remedy);
}

Nvml open_nvml() {
  const Library library({"libnvidia-ml.so.1"},
                        "It comes with NVIDIA's driver: install that, or, in a container, start it "
                        "with the GPU handed in and the capability 'utility' "
                        "(NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
  Nvml functions;
#define ATTNLAB_BIND(result, function, parameters) library.bind(functions.function, #function);
  ATTNLAB_NVML_FUNCTIONS(ATTNLAB_BIND)
#undef ATTNLAB_BIND
#define ATTNLAB_BIND(result, function, parameters) \
  library.bind_if_there(functions.function, #function);
  ATTNLAB_NVML_OPTIONAL_FUNCTIONS(ATTNLAB_BIND)
#undef ATTNLAB_BIND
  if (functions.nvmlDeviceGetCurrentClocksEventReasons == nullptr) {  // its name before 2023
    library.bind_if_there(functions.nvmlDeviceGetCurrentClocksEventReasons,
                          "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  check_nvml(functions, functions.nvmlInit_v2(), "NVML does not start",
             "See what nvidia-smi says; after an update of the driver the machine must restart");
  return functions;
}

}  // namespace

const Nvml& nvml() {
  static const Nvml functions = open_nvml();
  return functions;
}

NvmlDevice nvml_device(const Device& device) {
  CUdevice handle = 0;
  check(driver().cuDeviceGet(&handle, device.ordinal), "opening the GPU");
  char place[32] = "";
  check(driver().cuDeviceGetPCIBusId(place, sizeof place, handle), "finding the GPU on the bus");
  NvmlDevice found = nullptr;
  check_nvml(nvml(), nvml().nvmlDeviceGetHandleByPciBusId_v2(place, &found),
             "NVML does not find the GPU at " + std::string(place), "See what nvidia-smi says");
  return found;
}

}  // namespace attnlab::cuda
