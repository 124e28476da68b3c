// Reads what a GPU says of itself through NVML.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/telemetry.h"

namespace attnlab::cuda {

// It is made on first use and lives as long as the process. A MIG instance has its whole GPU's.
Telemetry& telemetry_of(const Device& device);

// Puts the bits of nvmlDeviceGetCurrentClocksEventReasons in words, lowest first.
std::vector<std::string> throttle_reasons(unsigned long long bits);

}  // namespace attnlab::cuda
