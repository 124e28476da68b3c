// Holds what the kernel that classifies tiles gets of a launch (kernels/device/tile_classes.cuh),
// the same for the host and the GPU: its one parameter.
#pragma once

#include "kernels/shared/params.h"
#include "kernels/shared/tile_span.h"

namespace attnlab {

struct TileClassesArguments {
  Params params;
  Tiling tiling;
  TileOrder order;
  TileEntry* entries;
  i32* seen_before;  // null: not asked for
};

}  // namespace attnlab
