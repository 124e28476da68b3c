// Says which kernels ran (kernels/api/counters.h), by CUPTI's activity records.
#pragma once

#include "kernels/api/counters.h"

namespace attnlab::cuda {

// It is made on first use and lives as long as the process.
KernelTrace& kernel_trace_of(const Device& device);

}  // namespace attnlab::cuda
