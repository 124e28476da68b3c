// Keeps buffers of an arena under their names, whose contents can be remembered and compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/tensors/arena.h"

namespace attnlab {

class NamedBuffers {
 public:
  using Contents = std::map<std::string, std::uint64_t>;  // a fingerprint for each name

  // `owner`, if any, stands behind the name in what the arena reports.
  void* allocate(Arena& arena, const std::string& name, const std::string& owner,
                 std::uint64_t bytes);

  // Fills all of every buffer.
  void fill(std::uint8_t byte);

  Contents contents() const;
  // Remembers the contents, or those of others with the same names.
  void seal() { sealed_ = contents(); }
  void seal_as(Contents contents) { sealed_ = std::move(contents); }
  // Returns the name of a buffer that has other contents than those, "" if none has; looks at `of`
  // only, if given. Throws std::out_of_range where nothing was sealed.
  std::string changed(const std::vector<std::string>& of = {}) const;
  // Returns the names of buffers whose bits differ from those of `other`, which has the same ones.
  std::vector<std::string> different(const NamedBuffers& other) const;

 private:
  struct Part {
    std::string name;
    Arena::Buffer buffer;
    std::uint64_t bytes;

    std::uint64_t fingerprint() const;
  };
  std::vector<Part> parts_;
  Contents sealed_;
};

}  // namespace attnlab
