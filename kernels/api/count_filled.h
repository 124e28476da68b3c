// Implements Runtime::count_filled() for memory that this process can read.
#pragma once

#include <cstdint>

namespace attnlab {

template <class Element>
std::uint64_t count_equal(const void* data, Element filled, std::uint64_t bytes) {
  const auto* const elements = static_cast<const Element*>(data);
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < bytes / sizeof(Element); ++i) {
    found += elements[i] == filled ? 1 : 0;
  }
  return found;
}

// Returns how many of the elements, of 2 or 4 bytes each, consist of this byte.
inline std::uint64_t count_filled(const void* data, std::uint8_t byte, std::uint64_t bytes,
                                  int element_bytes) {
  if (element_bytes == 2) {
    return count_equal(data, static_cast<std::uint16_t>(byte * 0x0101U), bytes);
  }
  return count_equal(data, byte * std::uint32_t{0x01010101}, bytes);
}

}  // namespace attnlab
