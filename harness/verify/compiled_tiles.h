// Tiles for kernels that are compiled for their config (Implementation::units), where each costs
// seconds: a few, each for problems that the same compiled kernel serves whatever their mask and
// lengths.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/implementation.h"

namespace attnlab::verify {

struct CompiledTiles {
  std::int64_t head_dim = 64;
  Dtype dtype = Dtype::f16;
  double dropout = 0.0;
  std::vector<Config> tiles;  // with values of axes that some kernels lack

  // Whether what is compiled for one problem of head_dim, dtype and dropout serves this one too.
  bool suit(const Problem& problem) const;
  // As a kernel can be asked: of each tile the axes that it has, of those that it has any of.
  std::vector<Config> of(const Implementation& kernel) const;
};

const std::vector<CompiledTiles>& compiled_tiles();

}  // namespace attnlab::verify
