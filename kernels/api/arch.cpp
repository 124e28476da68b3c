#include "kernels/api/arch.h"

#include <algorithm>

namespace attnlab {
namespace {

constexpr std::uint64_t kKib = 1 << 10;
constexpr std::uint64_t kMib = 1 << 20;

// The limits come from: CUDA C++ Programming Guide 13, "Technical Specifications per Compute
// Capability". Chips: harness/plan/gpus.cpp has the sources of T4, A100, RTX 3090, L4 and H100; the
// others are as NVIDIA's architecture white papers (Blackwell, RTX Blackwell) give them.
constexpr Arch kArchs[] = {
    {"sm_75", 75, 1024, 16, 64 * kKib, 64 * kKib, "T4", 40, 4 * kMib},
    {"sm_80", 80, 2048, 32, 164 * kKib, 163 * kKib, "A100", 108, 40 * kMib},
    {"sm_86", 86, 1536, 16, 100 * kKib, 99 * kKib, "RTX 3090", 82, 6 * kMib},
    {"sm_89", 89, 1536, 24, 100 * kKib, 99 * kKib, "L4", 58, 48 * kMib},
    {"sm_90a", 90, 2048, 32, 228 * kKib, 227 * kKib, "H100", 132, 50 * kMib},
    {"sm_100a", 100, 2048, 32, 228 * kKib, 227 * kKib, "B200", 148, 126 * kMib},
    {"sm_120a", 120, 1536, 24, 100 * kKib, 99 * kKib, "RTX 5090", 170, 96 * kMib},
};

constexpr int kWarp = 32;
constexpr int kPartitions = 4;                      // of a multiprocessor; a warp lives in one
constexpr int kRegisters = 64 * 1024;               // of a multiprocessor
constexpr int kRegistersOfWarpMultiple = 256;       // a warp gets a multiple of it
constexpr std::uint64_t kSystemSharedBytes = 1024;  // that each block takes besides, from 8.0 on

template <class T>
constexpr T round_up(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::span<const Arch> known_archs() { return kArchs; }

const Arch* find_arch(int compute_capability) {
  const auto* found = std::find_if(std::begin(kArchs), std::end(kArchs), [&](const Arch& arch) {
    return arch.compute_capability == compute_capability;
  });
  return found == std::end(kArchs) ? nullptr : found;
}

int blocks_per_multiprocessor(const Arch& arch, int registers, int threads,
                              std::uint64_t shared_bytes) {
  constexpr int kMostThreads = 1024;
  if (threads < 1 || threads > kMostThreads || shared_bytes > arch.shared_per_block_bytes) return 0;
  const int warps = round_up(threads, kWarp) / kWarp;
  int blocks = std::min(arch.blocks, arch.threads / kWarp / warps);
  if (registers > 0) {
    const int registers_of_warp = round_up(registers * kWarp, kRegistersOfWarpMultiple);
    const int resident_warps = kRegisters / kPartitions / registers_of_warp * kPartitions;
    blocks = std::min(blocks, resident_warps / warps);
  }
  const bool before_ampere = arch.compute_capability < 80;
  const std::uint64_t multiple = before_ampere ? 256 : 128;
  const std::uint64_t taken =
      round_up(shared_bytes, multiple) + (before_ampere ? 0 : kSystemSharedBytes);
  if (taken > 0) {
    blocks = static_cast<int>(
        std::min<std::uint64_t>(static_cast<std::uint64_t>(blocks), arch.shared_bytes / taken));
  }
  return blocks;
}

}  // namespace attnlab
