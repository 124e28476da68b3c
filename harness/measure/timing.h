// Turns samples into the numbers of a record.
#pragma once

#include <string>

#include "harness/measure/bench.h"
#include "harness/record/record.h"

namespace attnlab {

// Both functions take the samples, at least one.
Timing summarize(Samples samples, const std::string& timer);
GraphTiming summarize_graph(Samples samples);

}  // namespace attnlab
