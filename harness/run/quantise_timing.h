// Times the kernels that make the codes and scales of e4m3 on a device, apart from those that read
// what they make.
#pragma once

#include <functional>
#include <optional>

#include "harness/record/record.h"
#include "harness/run/context.h"
#include "harness/tensors/inputs.h"
#include "kernels/api/device_quantiser.h"

namespace attnlab {

// Compiles and times the device's quantiser on the inputs of a case. Returns nothing for another
// type, on a CPU, and where another process measures in turns. `before` is called before each
// warm-up launch and sample. Throws DeviceLost, and what `before` throws.
std::optional<QuantiseRecord> time_quantisation(const Inputs& inputs, Arena& arena,
                                                const RunContext& context,
                                                const std::function<void()>& before);

// Times one quantiser in the same way. Its first launch, and the last timed one, must have left the
// bytes of `inputs`, which the CPU made, where poison was before; else there is no time. Samples
// are bursts, whatever the protocol says: it waits for memory, not for the clock that a power limit
// leaves.
QuantiseRecord time_quantiser(DeviceQuantiser& quantiser, const Inputs& inputs, Arena& arena,
                              const Device& device, const Protocol& protocol,
                              const std::function<void()>& before);

}  // namespace attnlab
