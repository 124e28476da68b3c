// What a GPU says of itself through NVML.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/telemetry.h"

namespace attnlab::cuda {

// Made on first use, lives as long as the process. Of a MIG instance: that of the whole GPU.
Telemetry& telemetry_of(const Device& device);

// The bits of nvmlDeviceGetCurrentClocksEventReasons in words, lowest first.
std::vector<std::string> throttle_reasons(unsigned long long bits);

}  // namespace attnlab::cuda
