// Decides what a point costs, before anything of it is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "harness/plan/turns_memory.h"
#include "harness/run/competitor_run.h"
#include "harness/run/context.h"
#include "harness/run/ending.h"

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

  // Returns the ending of one that was admitted but got no memory: admission does not count what
  // peers and other processes hold.
  Ending refusal(const CompetitorRun& run) const;

 private:
  // Returns the ending of one that does not fit beside the others.
  Ending run_alone(const CompetitorRun& run, const std::string& why) const;

  const RunContext& context_;
  TurnsMemory admitted_;
  std::uint64_t spare_bytes_ = 0;  // of second sets of outputs, and of references
};

// Returns what a competitor that was verified needs of the device beside the inputs. Peers have
// copies of these, and some do not say what they need besides.
std::uint64_t own_bytes(const CompetitorRun& run);

}  // namespace attnlab
