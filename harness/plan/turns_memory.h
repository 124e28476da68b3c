// Adds up what competitors that take turns need of a device's memory at once.
#pragma once

#include <cstdint>
#include <set>

#include "harness/plan/accounting.h"
#include "harness/plan/case.h"

namespace attnlab {

// Counts the inputs in each layout once, what is each competitor's own (outputs and, for a
// backward, what it starts from), and one workspace, the largest, which all share. Peers are not
// counted: a peer says itself what does not fit.
class TurnsMemory {
 public:
  // Returns bytes() with this competitor added.
  std::uint64_t bytes_with(const Problem& problem, const Competitor& competitor,
                           const Device& device) const;
  void add(const Problem& problem, const Competitor& competitor, const Device& device);

  std::uint64_t bytes() const { return inputs_ + own_ + workspace_; }

 private:
  std::set<Layout> layouts_;  // whose inputs are counted
  std::uint64_t inputs_ = 0, own_ = 0, workspace_ = 0;
};

// Returns what those of a group need that want to run and fit into `limit` bytes alone.
std::uint64_t bytes_in_turns(const CaseGroup& group, const Device& device, std::uint64_t limit);

}  // namespace attnlab
