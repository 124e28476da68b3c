// What the counts of a launch are called by NVIDIA's tools: CUPTI and Nsight Compute share names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/api/counters.h"

namespace attnlab {

// Where a metric goes, and its unit in that of the field.
struct CounterMetric {
  std::optional<double> HardwareCounts::*field;
  std::string name;
  double factor = 1.0;
};

// The metrics of a launch on this type, of which a chip may lack some; of two for one field the
// first that it has counts. `further`: as CounterRequest has it.
std::vector<CounterMetric> counter_metrics(Dtype dtype, bool further);

}  // namespace attnlab
