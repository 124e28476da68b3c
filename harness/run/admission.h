// What a point costs, before anything of it is allocated.
#pragma once

#include <cstdint>

#include "harness/run/context.h"
#include "harness/run/entrant.h"

namespace attnlab {

// All admitted competitors of a case are timed together: each with outputs of its own, and one
// workspace, as large as the largest, that they take in turns.
class Admission {
 public:
  explicit Admission(const RunContext& context) : context_(context) {}

  // Writes what the point costs into the entrant's record. Throws Ending if it cannot fit, alone or
  // beside those that were admitted before. Of a peer only FLOPs are known: it says itself what
  // does not fit.
  void admit(Entrant& entrant);

  // Once all are admitted: whether there is room for a second set of outputs of the entrant, too,
  // beside those that got one before. Else says why not in Entrant::why_no_spare.
  bool admit_spare(Entrant& entrant);

  std::uint64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  const RunContext& context_;
  std::uint64_t workspace_bytes_ = 0;  // the largest of those admitted
  std::uint64_t own_bytes_ = 0;        // outputs and, for a backward, what it starts from
};

}  // namespace attnlab
