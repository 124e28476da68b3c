#include "harness/plan/device_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/errors.h"
#include "kernels/api/diagnosis.h"

namespace attnlab {

Device choose_device(BackendChoice choice, const std::vector<Device>& devices) {
  if (choice == BackendChoice::automatic) return devices.front();  // the CPU is always there
  const Backend backend = choice == BackendChoice::cpu ? Backend::cpu : Backend::cuda;
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const Device& device) { return device.backend == backend; });
  return found != devices.end() ? *found : Device{.backend = backend};
}

Device choose_device(BackendChoice choice) {
  const bool only_cpu = choice == BackendChoice::cpu;
  return choose_device(choice, only_cpu ? available_devices(Backend::cpu) : available_devices());
}

void set_cpu(Device& device, std::optional<int> threads, const std::string& isa) {
  if (threads) device.threads = *threads;
  if (isa.empty()) return;
  const std::vector<std::string> known = instruction_sets();
  if (std::ranges::find(known, isa) == known.end()) {
    throw UsageError(fmt::format("--isa: this processor has no instruction set '{}'; it has: {}",
                                 isa, fmt::join(known, ", ")));
  }
  device.isa = isa;
}

std::string describe(const Device& device) {
  if (device.name.empty()) return fmt::format("no {} device", to_string(device.backend));
  std::string text = device.name;
  if (!device.isa.empty()) text += ", " + device.isa;
  if (device.backend == Backend::cpu) {
    text += fmt::format(", {} thread{}", device.threads, device.threads == 1 ? "" : "s");
  }
  return text + fmt::format(", {:.1f} GiB", static_cast<double>(device.memory_bytes) / 0x1p30);
}

}  // namespace attnlab
