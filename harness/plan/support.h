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

Support probe_support(const Implementation& implementation, const Device& device);

}  // namespace attnlab
