// Keeps buffers of an arena under their names, whose contents can be remembered and compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tensors/arena.h"

namespace attnlab {

class NamedBuffers {
 public:
  // `owner`, if any, stands behind the name in what the arena reports.
  void* allocate(Arena& arena, const std::string& name, const std::string& owner,
                 std::uint64_t bytes);

  // Fills all of every buffer.
  void fill(std::uint8_t byte);

  // Remembers the contents.
  void seal();
  // Returns the name of a buffer that changed since, "" if none did; looks at `of` only, if given.
  std::string changed(const std::vector<std::string>& of = {}) const;
  // Returns the names of buffers whose bits differ from those of `other`, which has the same ones.
  std::vector<std::string> different(const NamedBuffers& other) const;

 private:
  struct Part {
    std::string name;
    Arena::Buffer buffer;
    std::uint64_t bytes;
    std::uint64_t sealed = 0;  // fingerprint

    std::uint64_t fingerprint() const;
  };
  std::vector<Part> parts_;
};

}  // namespace attnlab
