// Tests the gate on this machine: it must tell a pair that is equal from one that is slower by a
// share that was measured before.
#pragma once

#include <string>
#include <vector>

#include "harness/session/gate.h"

namespace attnlab {

// Describes a head that is slower.
struct Plant {
  std::string what;  // "time at a launch's end"
  GateSide head;
};

struct PlantedShare {
  double share = 0.0;   // of a launch's time, of the least slowed point
  Interval ratio95;     // of that point
  bool counts = false;  // the interval lies above the point's threshold
};

struct SelfTest {
  std::string what;  // of the pair: "equal", or Plant::what
  std::optional<PlantedShare> planted;
  int expected = 0, code = 0;  // of the gate
};

// Gates the program with itself, then with each plant, whose share 200 samples of each side measure
// first. `run.head` is the program without a plant. Throws what run_gate() throws.
std::vector<SelfTest> self_test(const GateRun& run, const std::vector<Plant>& plants,
                                const CompareOptions& options);

}  // namespace attnlab
