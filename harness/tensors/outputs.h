// Holds the outputs of one competitor.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/tensors/named_buffers.h"
#include "kernels/api/implementation.h"

namespace attnlab {

// Holds what a pass writes, in an arena: o, lse and what the kernel saves for its backward, if the
// pass has a forward; dQ, dK, dV, if it has a backward.
class Outputs {
 public:
  // Makes what `kernel` writes; it saves `saved_bytes` beside o and lse (0: nothing).
  Outputs(Arena& arena, const std::string& owner, const Problem& problem,
          const Implementation& kernel, std::uint64_t saved_bytes);

  // Returns the tensors with these outputs filled in.
  Tensors attach(Tensors tensors) const;

  // Fills all of them, also what the kernel saves.
  void fill(std::uint8_t byte) { buffers_.fill(byte); }
  // Returns which tensor still has elements of fill(byte), as "128 of 4096 elements of o"; "" if
  // none has. All of o, dq, dk and dv must be written, and the rows of lse that exist.
  std::string unwritten(std::uint8_t byte) const;

  // Overwrites a part of each tensor that must be written: with this byte or, without one, with
  // other elements of the same tensor, which look like results. `places` draws where, from one
  // element up to half of them. Leaves an lse alone that has rows which nobody writes.
  void damage(std::mt19937_64& places, std::optional<std::uint8_t> byte);
  // Returns the names of the tensors that damage() overwrites.
  std::vector<std::string> damageable() const;

  NamedBuffers::Contents contents() const { return buffers_.contents(); }
  // Remembers the contents: from now on they are inputs of a backward, or compared with others.
  void seal() { buffers_.seal(); }
  // Remembers contents of other outputs of the same kernel on the same problem.
  void seal_as(NamedBuffers::Contents contents) { buffers_.seal_as(std::move(contents)); }
  // Returns the name of a tensor that changed since, "" if none did; looks at `of` only, if given.
  std::string changed(const std::vector<std::string>& of = {}) const {
    return buffers_.changed(of);
  }
  // Returns the names of tensors whose bits differ from those of the same tensor of `other`.
  std::vector<std::string> different(const Outputs& other) const {
    return buffers_.different(other.buffers_);
  }

 private:
  // Describes a tensor that must be written.
  struct Written {
    const char* name;
    void* data;
    std::uint64_t bytes;
    int element_bytes;
    std::uint64_t may_stay = 0;  // elements: those of rows that a packed entry does not have

    std::uint64_t elements() const { return bytes / static_cast<std::uint64_t>(element_bytes); }
  };

  Runtime& runtime_;
  std::vector<Written> written_;
  NamedBuffers buffers_;
  Tensors tensors_;  // nothing but these outputs
};

}  // namespace attnlab
