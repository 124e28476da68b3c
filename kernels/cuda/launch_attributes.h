// Tells the driver what a launch needs beside its sizes.
#pragma once

#include <cuda.h>

namespace attnlab::cuda {

struct LaunchGrid;

struct LaunchAttributes {
  CUlaunchAttribute list[2] = {};
  unsigned count = 0;
};
LaunchAttributes attributes_of(const LaunchGrid& grid);

}  // namespace attnlab::cuda
