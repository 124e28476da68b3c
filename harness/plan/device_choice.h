// Chooses the device of a run as it was asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/sweep.h"
#include "kernels/api/device.h"

namespace attnlab {

// Returns the first device that fits the choice; one without a name where the machine has none.
Device choose_device(BackendChoice choice, const std::vector<Device>& devices);
// Chooses among this machine's devices. A choice of the CPU starts no GPU's driver.
Device choose_device(BackendChoice choice);

// Sets what was given of the CPU: threads, and instruction set ("": not given). Throws UsageError
// for one that this processor does not have.
void set_cpu(Device& device, std::optional<int> threads, const std::string& isa);

// Returns "<name>, avx512, 2 threads, 15.6 GiB".
std::string describe(const Device& device);

}  // namespace attnlab
