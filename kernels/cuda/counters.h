// Implements the counters of a GPU (kernels/api/counters.h) by CUPTI's range profiler.
#pragma once

#include "kernels/api/counters.h"

namespace attnlab::cuda {

// It is made on first use and lives as long as the process.
Counters& counters_of(const Device& device);

// Returns CUPTI's names of what count() asks for, of which a chip may lack some.
std::vector<std::string> counted_metrics(Dtype dtype, bool further);

}  // namespace attnlab::cuda
