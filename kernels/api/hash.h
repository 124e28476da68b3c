// Tells contents apart by a hash: of pattern files in records, of inputs before and after a
// launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attnlab {

inline constexpr std::uint64_t kFnv1aOfNothing = 0xCBF29CE484222325;

// Returns the 64-bit FNV-1a of what `hash` stands for with these bytes behind it. Source: RFC 9923
// (Fowler, Noll, Vo).
inline std::uint64_t fnv1a(const void* data, std::size_t bytes,
                           std::uint64_t hash = kFnv1aOfNothing) {
  constexpr std::uint64_t kPrime = 0x100000001B3;
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * kPrime;
  return hash;
}

}  // namespace attnlab
