// Finds by a kernel, before the pass that asks, what is looked up of tiles under a block pattern.
#pragma once

#include <memory>

#include "kernels/api/problem.h"
#include "kernels/cuda/launch.h"
#include "kernels/shared/layout.h"
#include "kernels/shared/tile_classes_arguments.h"

namespace attnlab::cuda {

KernelUnit tile_classes_unit();

template <class KernelConfig>
Tiling tiling_of(const KernelConfig& config) {
  return {.block_m = config.block_m, .block_n = config.block_n};
}

// Returns how many tiles the problem has of that tiling, in all batch entries.
i64 num_tiles(const Problem& problem, const Tiling& tiling);

// Returns whether each tile lies within a block of the problem's pattern, or would if all blocks
// were of 64x64. One that reaches across a border is multiplied whole and masked score by score; a
// few of them cost more than what larger tiles gain (kernels/v2/TUNING.md).
bool suits_pattern(const Problem& problem, const Tiling& tiling);

class TileClassifier {
 public:
  // Compiles, or takes from the cache. Throws as load().
  explicit TileClassifier(const Device& device);

  // Runs asynchronously. See kernels/device/tile_classes.cuh; seen_before may be null.
  void operator()(CUstream stream, const Params& params, const Tiling& tiling, TileOrder order,
                  TileEntry* entries, i32* seen_before) const;

 private:
  std::shared_ptr<const Module> module_;
  Kernel<TileClassesArguments> classify_tiles_;
};

}  // namespace attnlab::cuda
