// Quantises on a GPU: launches kernels/device/quantise.cuh for q, k and v in order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/device_quantiser.h"

namespace attnlab::cuda {

// See kernels/api/device_quantiser.h.
std::string why_no_quantiser(const Problem& problem, const Device& device);
std::unique_ptr<DeviceQuantiser> make_quantiser(const Problem& problem, const Device& device);

// Returns the units that it compiles: for q and k, and for v.
std::vector<KernelUnit> quantiser_units(const Problem& problem);

}  // namespace attnlab::cuda
