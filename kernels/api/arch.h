// Says what a kernel may use of a multiprocessor, for every arch that kernels are compiled for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace attnlab {

struct Arch {
  const char* name;  // as the compiler takes it: "sm_90a"
  int compute_capability;
  int threads;                           // that a multiprocessor holds at once
  int blocks;                            // likewise
  std::uint64_t shared_bytes;            // of a multiprocessor
  std::uint64_t shared_per_block_bytes;  // the most that a block may ask for
  // This chip stands for the arch where there is no GPU.
  const char* chip;
  int multiprocessors;
  std::uint64_t l2_bytes;
};

std::span<const Arch> known_archs();

// Returns the arch of a compute capability, null if it is not known.
const Arch* find_arch(int compute_capability);

// Returns how many blocks of so many threads fit a multiprocessor at once; 0 if not even one does.
// `registers` are those of a thread, `shared_bytes` those of a block, static and dynamic.
int blocks_per_multiprocessor(const Arch& arch, int registers, int threads,
                              std::uint64_t shared_bytes);

}  // namespace attnlab
