// The kernels of this tree, in priority order, and the devices they run on: the only file that
// includes generations.
#include "kernels/api/registry.h"
#include "kernels/api/runtime.h"
#include "kernels/cpu/backend.h"
#if defined(ATTNLAB_CUDA)
#include "kernels/cuda/device.h"
#include "kernels/cuda/runtime.h"
#endif
#include "kernels/minimal/cpu.h"
#include "kernels/naive/cpu.h"
#include "kernels/v1/cpu.h"
#include "kernels/v2/cpu.h"
#include "kernels/v3/cpu.h"
#if ATTNLAB_WITH_CUDA
#include "kernels/minimal/cuda.h"
#include "kernels/naive/cuda.h"
#endif

namespace attnlab {

const Registry& builtin_registry() {
  static constexpr const Implementation* kBuiltin[] = {
    &naive::kCpu,
    &minimal::kCpu,
    &v1::kCpu,
    &v2::kCpu,
    &v3::kCpu,
#if ATTNLAB_WITH_CUDA
    &naive::kCuda,
    &minimal::kCuda,
#endif
  };
  static const Registry registry(kBuiltin);
  return registry;
}

std::vector<Device> available_devices() {
#if defined(ATTNLAB_CUDA)
  std::vector<Device> devices = cuda::devices();
#else
  std::vector<Device> devices;
#endif
  devices.push_back(cpu::cpu_device());
  return devices;
}

Runtime& runtime_of([[maybe_unused]] const Device& device) {
#if defined(ATTNLAB_CUDA)
  if (device.backend == Backend::cuda) return cuda::runtime_of(device);
#endif
  return host_runtime();
}

}  // namespace attnlab
