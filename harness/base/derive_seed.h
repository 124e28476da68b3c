// Derives seeds for what is drawn at random.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/api/hash.h"

namespace attnlab {

// Returns a seed of its own for everything that has a name or a number.
inline std::uint64_t derive_seed(std::uint64_t seed, const std::string& name) {
  return fnv1a(name.data(), name.size(), fnv1a(&seed, sizeof seed));
}

}  // namespace attnlab
