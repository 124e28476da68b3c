// Keeps caches cold: launches rotate through copies of their inputs, so many that no cache still
// holds one of them when it is used again.
#pragma once

#include <map>
#include <vector>

#include "harness/run/competitor_run.h"
#include "harness/tensors/inputs.h"

namespace attnlab {

class InputRotation {
 public:
  // Makes, with protocol.cache hot, one set only, the inputs themselves. The copies live as long as
  // the object, in the arena.
  InputRotation(Arena& arena, const Device& device, const Protocol& protocol)
      : arena_(arena), device_(device), protocol_(protocol) {}

  // Adds the inputs of a layout; must come before sets_of() for it. Arguments outlive the object.
  void add(const Problem& problem, const Inputs& inputs);

  // Returns how many sets there are.
  static int count(const Problem& problem, const Device& device, const Protocol& protocol);

  // Returns what the launches of a competitor rotate through: its tensors, with inputs in its
  // layout; for a backward also copies of what its forward left. All have the same outputs. The
  // first call makes them; run.tensors must be attached by then.
  const std::vector<Tensors>& sets_of(const CompetitorRun& run);

 private:
  std::vector<Tensors> make_sets(const CompetitorRun& run);
  // Copies a tensor of the device; returns null for null.
  void* copy(const void* data, const char* name, std::uint64_t bytes);

  Arena& arena_;
  const Device& device_;
  const Protocol& protocol_;
  NamedBuffers buffers_;
  std::map<Layout, std::vector<Tensors>> inputs_;  // of the sets
  std::map<const CompetitorRun*, std::vector<Tensors>> sets_;
};

}  // namespace attnlab
