// A hash that tells contents apart: of pattern files in records, of inputs before and after a
// launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attnlab {

// FNV-1a, 64 bits. Source: RFC 9923 (Fowler, Noll, Vo).
inline std::uint64_t fnv1a(const void* data, std::size_t bytes) {
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * kPrime;
  return hash;
}

}  // namespace attnlab
