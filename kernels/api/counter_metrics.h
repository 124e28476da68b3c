// Names the counts of a launch as NVIDIA's tools do: CUPTI and Nsight Compute share names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/api/counters.h"

namespace attnlab {

// Says where a metric goes, and its unit in that of the field.
struct CounterMetric {
  std::optional<double> HardwareCounts::*field;
  std::string name;
  double factor = 1.0;
};

// Returns the metrics of a launch on this type, of which a chip may lack some; of two for one field
// the first that it has counts. `further`: as CounterRequest has it.
std::vector<CounterMetric> counter_metrics(Dtype dtype, bool further);

}  // namespace attnlab
