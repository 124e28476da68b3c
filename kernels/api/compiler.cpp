#include "kernels/api/compiler.h"

#include <algorithm>
#include <cstdlib>
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

std::string cache_folder() {
  const std::string& set = compiler_settings().cache_folder;
  if (!set.empty()) return set;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/attnlab";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/attnlab";
  throw std::runtime_error(
      "no folder for compiled kernels and measured peaks: neither XDG_CACHE_HOME nor HOME is set; "
      "name one with --cache-dir DIR");
}

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
