// Finds the GPUs of this machine.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace attnlab::cuda {

// Returns the GPUs that the driver shows; none where there is no driver or no GPU.
std::vector<Device> devices();

// Returns why devices() is empty: what is missing and what to do about it.
std::string why_no_devices();

// Makes the device's primary context current in this thread; it stays as long as the process.
void make_current(const Device& device);

}  // namespace attnlab::cuda
