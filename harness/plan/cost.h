// Predicts what points cost beside one another: for the time left, and for shards of equal length.
#pragma once

#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/protocol.h"

namespace attnlab {

// Predicts points, together with their protocol.
struct Pace {
  double flops_per_s = 0.0;       // that launches typically reach
  double point_s = 0.0;           // what a point takes beside its launches
  double untimed_launches = 0.0;  // of a point
};

// Predicts the seconds of one competitor; 0 where it does not run.
double point_seconds(const Problem& problem, const Competitor& competitor, const Protocol& protocol,
                     const Pace& pace);
double case_seconds(const Case& work, const Protocol& protocol, const Pace& pace);

// Returns point_seconds() on a device of a typical pace, whichever there is: machines that share a
// sweep must cut it alike.
double point_weight(const Problem& problem, const Competitor& competitor, const Protocol& protocol);

// Adds up the competitors of a case, and of several.
double case_weight(const Case& work, const Protocol& protocol);
double case_weight(const std::vector<Case>& cases, const Protocol& protocol);

}  // namespace attnlab
