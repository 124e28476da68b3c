// Finds what a kernel can do by asking it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/api/registry.h"

namespace attnlab {

// Holds the probed values of one axis; the rest is a small problem that the kernel supports.
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
