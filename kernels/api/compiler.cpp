#include "kernels/api/compiler.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/api/arch.h"

namespace attnlab {
namespace {

CompilerSettings& current() {
  static CompilerSettings settings;
  return settings;
}

}  // namespace

void set_compiler(const CompilerSettings& settings) { current() = settings; }

const CompilerSettings& compiler_settings() { return current(); }

std::string arch_of(const Device& device) {
  const Arch* arch = find_arch(device.compute_capability);
  if (arch != nullptr) return arch->name;
  // From 9.0 on the instructions that only one arch has need the suffix.
  return "sm_" + std::to_string(device.compute_capability) +
         (device.compute_capability >= 90 ? "a" : "");
}

Device device_of_arch(const std::string& arch) {
  std::string known;
  for (const Arch& row : known_archs()) {
    if (arch == row.name || arch + "a" == row.name) {
      return {.backend = Backend::cuda,
              .name = row.chip,
              .memory_bytes = std::uint64_t{1} << 37,  // plenty: nothing is allocated
              .compute_capability = row.compute_capability,
              .multiprocessors = row.multiprocessors,
              .shared_memory_per_block_bytes = row.shared_per_block_bytes,
              .l2_bytes = row.l2_bytes};
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw std::invalid_argument("there is no arch '" + arch + "'; known are " + known);
}

}  // namespace attnlab
