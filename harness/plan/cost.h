// Predicts what points cost beside one another: for the time left, and for shards of equal length.
#pragma once

#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/protocol.h"

namespace attnlab {

// Estimates the seconds of one competitor, of a device of a typical rate; 0 where it does not run.
double point_weight(const Problem& problem, const Competitor& competitor, const Protocol& protocol);

// Adds up the competitors of a case, and of several.
double case_weight(const Case& work, const Protocol& protocol);
double case_weight(const std::vector<Case>& cases, const Protocol& protocol);

}  // namespace attnlab
