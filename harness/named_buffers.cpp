#include "harness/named_buffers.h"

#include <cstring>

#include "kernels/api/hash.h"

namespace attnlab {

void* NamedBuffers::allocate(Arena& arena, const std::string& name, const std::string& owner,
                             std::uint64_t bytes) {
  const std::string full_name = owner.empty() ? name : name + " of " + owner;
  parts_.push_back({name, arena.allocate(full_name, bytes), bytes});
  return parts_.back().buffer.get();
}

void NamedBuffers::seal() {
  for (Part& part : parts_) part.hash = fnv1a(part.buffer.get(), part.bytes);
}

std::string NamedBuffers::changed() const {
  for (const Part& part : parts_) {
    if (fnv1a(part.buffer.get(), part.bytes) != part.hash) return part.name;
  }
  return "";
}

std::string NamedBuffers::different(const NamedBuffers& other) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& mine = parts_[i];
    const Part& theirs = other.parts_.at(i);
    if (mine.bytes != theirs.bytes ||
        std::memcmp(mine.buffer.get(), theirs.buffer.get(), mine.bytes) != 0) {
      return mine.name;
    }
  }
  return "";
}

}  // namespace attnlab
