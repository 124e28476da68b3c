// Two processes that measure on one device take turns: each asks before it warms up, before each
// sample, and before it leaves the timing of a case.
#pragma once

#include <string>

#include "harness/measure/bench.h"

namespace attnlab {

// Waits for the turns that another process gives.
class DeviceTurns {
 public:
  DeviceTurns() = default;
  DeviceTurns(const DeviceTurns&) = delete;
  DeviceTurns& operator=(const DeviceTurns&) = delete;
  virtual ~DeviceTurns() = default;

  // Returns when the step of a round of the case may begin, which ends the step before it.
  // `case_id` tells the cases of a sweep apart. Throws what ends the run when nobody gives turns
  // any more.
  virtual void wait(const std::string& case_id, TurnStep step, int round) = 0;
};

}  // namespace attnlab
