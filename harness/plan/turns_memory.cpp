#include "harness/plan/turns_memory.h"

#include <algorithm>

namespace attnlab {

std::uint64_t TurnsMemory::bytes_with(const Problem& problem, const Competitor& competitor,
                                      const Device& device) const {
  TurnsMemory with = *this;
  with.add(problem, competitor, device);
  return with.bytes();
}

void TurnsMemory::add(const Problem& problem, const Competitor& competitor, const Device& device) {
  const Memory memory = most_memory(problem, competitor, device);
  const std::uint64_t shared = bytes_of_inputs(problem);
  if (layouts_.insert(problem.layout).second) inputs_ += shared;
  // Each competitor has an o of its own, though it is an input of a backward.
  own_ += memory.inputs_bytes - shared + memory.outputs_bytes + memory.saved_bytes;
  workspace_ = std::max(workspace_, memory.workspace_bytes);
}

std::uint64_t bytes_in_turns(const CaseGroup& group, const Device& device, std::uint64_t limit) {
  TurnsMemory memory;
  for (const Case& work : group) {
    for (const Competitor& competitor : work.competitors) {
      if (competitor.implementation == nullptr || !wants_to_run(competitor)) continue;
      if (most_bytes(work.problem, competitor, device) > limit) continue;
      memory.add(work.problem, competitor, device);
    }
  }
  return memory.bytes();
}

}  // namespace attnlab
