// What the driver is told of a launch beside its sizes.
#pragma once

#include <cuda.h>

#include "kernels/cuda/launch.h"

namespace attnlab::cuda {

struct LaunchAttributes {
  CUlaunchAttribute list[2] = {};
  unsigned count = 0;
};
LaunchAttributes attributes_of(const Grid& grid);

}  // namespace attnlab::cuda
