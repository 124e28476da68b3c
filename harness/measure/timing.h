// From samples to the numbers of a record.
#pragma once

#include <string>

#include "harness/measure/bench.h"
#include "harness/record/record.h"

namespace attnlab {

// Both take the samples, of which there is at least one.
Timing summarize(Samples samples, const std::string& timer);
GraphTiming summarize_graph(Samples samples);

}  // namespace attnlab
