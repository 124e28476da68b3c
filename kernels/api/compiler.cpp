#include "kernels/api/compiler.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/api/arch.h"

namespace attnlab {
namespace {

CompilerSettings& settings() {
  static CompilerSettings value;
  return value;
}

}  // namespace

void set_compiler(const CompilerSettings& value) { settings() = value; }

const CompilerSettings& compiler_settings() { return settings(); }

std::string arch_of(const Device& device) {
  const Arch* arch = find_arch(device.compute_capability);
  if (arch != nullptr) return arch->name;
  // From 9.0 on the instructions that only one arch has need the suffix.
  return "sm_" + std::to_string(device.compute_capability) +
         (device.compute_capability >= 90 ? "a" : "");
}

Device device_of_arch(const std::string& name) {
  std::string known;
  for (const Arch& arch : known_archs()) {
    if (name == arch.name || name + "a" == arch.name) {
      return {.backend = Backend::cuda,
              .name = arch.chip,
              .memory_bytes = std::uint64_t{1} << 37,  // plenty: nothing is allocated
              .compute_capability = arch.compute_capability,
              .multiprocessors = arch.multiprocessors,
              .shared_memory_per_block_bytes = arch.shared_per_block_bytes,
              .l2_bytes = arch.l2_bytes};
    }
    known += (known.empty() ? "" : ", ") + std::string(arch.name);
  }
  throw std::invalid_argument("there is no arch '" + name + "'; known are " + known);
}

}  // namespace attnlab
