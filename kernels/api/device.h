// Says where a kernel runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attnlab {

enum class Backend : std::uint8_t { cpu, cuda };
const char* to_string(Backend backend);

struct Device {
  Backend backend = Backend::cpu;
  std::string name;
  std::uint64_t memory_bytes = 0;  // what a process may use in total
  // These describe a CPU.
  int threads = 1;
  std::string isa;  // instruction set of the tile operations: "avx512", "avx2", ...
  std::vector<std::uint64_t> cache_bytes;  // L1d, L2, L3 as the system reports them
  // These describe a GPU.
  int ordinal = 0;
  int compute_capability = 0;  // 90 for sm_90
  int multiprocessors = 0;
  std::uint64_t shared_memory_per_block_bytes = 0;  // the most that a block may ask for
  std::uint64_t l2_bytes = 0;
  double max_clock_hz = 0.0;  // of the multiprocessors
  std::string driver;         // version of the kernel module, "580.159.04"
  std::string uuid;           // "GPU-..." as nvidia-smi -L shows it; of a MIG instance its own
  std::optional<double> power_limit_w;  // that is enforced; empty: nobody asked, or it does not say
};

}  // namespace attnlab
