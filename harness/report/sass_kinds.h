// Counts the instructions of a compiled kernel by kind.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "harness/report/sass.h"

namespace attnlab {

enum class SassKind : std::size_t {
  wgmma,      // products of a warpgroup
  mma,        // of a warp
  fp32,       // sums and products of fp32, compared and selected, too
  packed,     // of pairs of halves
  convert,    // from one type to another
  mufu,       // exponentials, reciprocals and the like, of the special function unit
  integer,    // also addresses, predicates and moves
  shared,     // loads and stores of shared memory
  global,     // of global memory, atomics and copies to shared memory, too
  bulk,       // copies by the TMA
  local,      // of a thread's own memory: spills, and arrays on its stack
  constants,  // loads of parameters and constants
  sync,       // barriers, fences, waits
  warp,       // exchanged within a warp
  branch,
  nop,
  other,  // unknown to this list
};
inline constexpr std::size_t kSassKinds = static_cast<std::size_t>(SassKind::other) + 1;

using KindCounts = std::array<std::size_t, kSassKinds>;

const char* name_of(SassKind kind);

// Takes an operation without what follows its first dot, like "HGMMA".
SassKind kind_of(std::string_view operation);

struct SassCounts {
  KindCounts kinds = {};
  std::array<std::map<std::string, std::size_t>, kSassKinds> operations;  // by kind
  std::size_t all = 0;

  std::size_t operator[](SassKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
};
void count(const SassInstruction& instruction, SassCounts& counts);
void add(const SassCounts& counts, SassCounts& sum);
SassCounts count_kinds(const SassKernel& kernel);

}  // namespace attnlab
