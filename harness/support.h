// What a kernel can do, found by asking it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/api/registry.h"

namespace attnlab {

// The probed values of one axis, all else as in a small problem that the kernel supports.
struct AxisSupport {
  std::string axis;
  std::vector<std::string> supported;
  std::vector<std::pair<std::string, std::vector<std::string>>> unsupported;  // reason -> values
};

struct Support {
  std::vector<AxisSupport> axes;  // empty: no probed problem is supported, `reason` says why
  std::string reason;
};

// "this machine has no cuda device: ..." and what to do about it.
std::string no_device(Backend backend);

// Why the kernel does not run the problem with this config on this device, or empty: values outside
// of the axes, a block pattern that cannot be formed, or the kernel's own reason. A device without
// a name stands for a backend that this machine does not have.
std::string why_unsupported(const Implementation& implementation, const Config& config,
                            const Problem& problem, const Device& device);

Support probe_support(const Implementation& implementation, const Device& device);

}  // namespace attnlab
