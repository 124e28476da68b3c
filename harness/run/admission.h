// Decides what a point costs, before anything of it is allocated.
#pragma once

#include <cstdint>

#include "harness/plan/turns_memory.h"
#include "harness/run/competitor_run.h"
#include "harness/run/context.h"

namespace attnlab {

// Admits competitors: all of a group of cases are timed together (TurnsMemory).
class Admission {
 public:
  explicit Admission(const RunContext& context) : context_(context) {}

  // Writes what the point costs into the competitor's record. Throws Ending if it cannot fit, alone
  // or beside those that were admitted before. Only FLOPs are known of a peer: it says itself what
  // does not fit.
  void admit(CompetitorRun& run);

  // Returns, once all are admitted, whether a second set of outputs of the competitor fits, too,
  // beside those that got one before. Else says why not in CompetitorRun::why_no_spare.
  bool admit_spare(CompetitorRun& run);

  // Returns, once all are admitted, whether so many bytes of references fit on the device.
  bool admit_references(std::uint64_t bytes);

  std::uint64_t workspace_bytes() const { return admitted_.workspace_bytes(); }

 private:
  const RunContext& context_;
  TurnsMemory admitted_;
  std::uint64_t spare_bytes_ = 0;  // of second sets of outputs, and of references
};

}  // namespace attnlab
