#include "kernels/cuda/device.h"

#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include "kernels/cuda/driver.h"

namespace attnlab::cuda {
namespace {

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "reading an attribute of the GPU");
  return value;
}

// Returns "580.159.04"; empty where the module does not say.
std::string module_version() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  std::getline(file, version);
  return version;
}

// Writes a UUID as nvidia-smi -L shows it: groups of 4, 2, 2, 2 and 6 bytes.
std::string uuid_text(const char (&bytes)[16]) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const int byte = static_cast<unsigned char>(bytes[i]);
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

Device describe(int ordinal) {
  const Driver& api = driver();
  CUdevice handle = 0;
  check(api.cuDeviceGet(&handle, ordinal), "opening the GPU");
  char name[256] = "";
  check(api.cuDeviceGetName(name, sizeof name, handle), "reading the GPU's name");
  std::size_t memory = 0;
  check(api.cuDeviceTotalMem(&memory, handle), "reading the GPU's memory");
  const auto get = [&](CUdevice_attribute which) { return attribute(handle, which); };
  Device device{.backend = Backend::cuda, .name = name, .memory_bytes = memory};
  device.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  device.ordinal = ordinal;
  device.compute_capability = 10 * get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                              get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device.multiprocessors = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  device.shared_memory_per_block_bytes =
      static_cast<std::uint64_t>(get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  device.l2_bytes = static_cast<std::uint64_t>(get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  device.max_clock_hz = 1e3 * get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  device.driver = module_version();
  CUuuid uuid{};
  check(api.cuDeviceGetUuid(&uuid, handle), "reading the GPU's UUID");
  device.uuid = uuid_text(uuid.bytes);
  return device;
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> found;
  if (!why_no_devices().empty()) return found;
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "counting the GPUs");
  for (int ordinal = 0; ordinal < count; ++ordinal) found.push_back(describe(ordinal));
  return found;
}

std::string why_no_devices() {
  try {
    int count = 0;
    check(driver().cuDeviceGetCount(&count), "counting the GPUs");
    return count > 0 ? "" : "the driver shows no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void make_current(const Device& device) {
  static std::map<int, CUcontext> contexts;
  const auto [found, is_new] = contexts.try_emplace(device.ordinal);
  if (is_new) {
    CUdevice handle = 0;
    check(driver().cuDeviceGet(&handle, device.ordinal), "opening the GPU");
    check(driver().cuDevicePrimaryCtxRetain(&found->second, handle), "making a context on the GPU");
  }
  check(driver().cuCtxSetCurrent(found->second), "using the context of the GPU");
}

}  // namespace attnlab::cuda
