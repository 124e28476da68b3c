#include "harness/tensors/named_buffers.h"

#include <algorithm>

namespace attnlab {

std::uint64_t NamedBuffers::Part::fingerprint() const {
  return buffer.get_deleter().arena->runtime().fingerprint(buffer.get(), bytes);
}

void* NamedBuffers::allocate(Arena& arena, const std::string& name, const std::string& owner,
                             std::uint64_t bytes) {
  const std::string full_name = owner.empty() ? name : name + " of " + owner;
  parts_.push_back({name, arena.allocate(full_name, bytes), bytes});
  return parts_.back().buffer.get();
}

void NamedBuffers::fill(std::uint8_t byte) {
  for (const Part& part : parts_) {
    part.buffer.get_deleter().arena->runtime().fill(part.buffer.get(), byte, part.bytes);
  }
}

NamedBuffers::Contents NamedBuffers::contents() const {
  Contents contents;
  for (const Part& part : parts_) contents[part.name] = part.fingerprint();
  return contents;
}

std::string NamedBuffers::changed(const std::vector<std::string>& of) const {
  for (const Part& part : parts_) {
    if (!of.empty() && std::ranges::find(of, part.name) == of.end()) continue;
    if (part.fingerprint() != sealed_.at(part.name)) return part.name;
  }
  return "";
}

std::vector<std::string> NamedBuffers::different(const NamedBuffers& other) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& mine = parts_[i];
    const Part& theirs = other.parts_.at(i);
    if (mine.bytes != theirs.bytes || mine.fingerprint() != theirs.fingerprint()) {
      names.push_back(mine.name);
    }
  }
  return names;
}

}  // namespace attnlab
