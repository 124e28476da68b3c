// Says why a kernel does not run a problem.
#pragma once

#include <string>

#include "kernels/api/implementation.h"
#include "kernels/api/problem.h"

namespace attnlab {

// Returns "this machine has no cuda device: ..." and what to do about it.
std::string no_device(Backend backend);

// Returns what nobody can do in e4m3, be it a kernel or a peer; "" of what somebody may do.
inline std::string never_in_e4m3(const Problem& problem) {
  if (problem.runs_backward()) {
    return "there is no backward in e4m3: three bits of mantissa do not carry gradients";
  }
  if (problem.dropout > 0.0) return "there is no dropout in e4m3, a format of inference";
  return "";
}

// Returns why the kernel does not run the problem with this config on this device, or "": values
// outside of the axes, a block pattern that cannot be formed, or the kernel's own reason. A device
// without a name stands for a backend that this machine does not have.
std::string why_unsupported(const Implementation& implementation, const Config& config,
                            const Problem& problem, const Device& device);

}  // namespace attnlab
