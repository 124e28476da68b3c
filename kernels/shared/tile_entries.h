// For tests: entries of tiles by their definition.
#pragma once

#include <vector>

#include "kernels/shared/tile_span.h"

namespace attnlab {

inline std::vector<TileEntry> entries_of(const std::vector<TileClass>& classes) {
  std::vector<TileEntry> entries(classes.size());
  auto next = static_cast<i32>(classes.size());
  for (auto tile = static_cast<i32>(classes.size()) - 1; tile >= 0; --tile) {
    const TileClass own = classes[static_cast<std::size_t>(tile)];
    if (own != TileClass::empty) next = tile;
    entries[static_cast<std::size_t>(tile)] = {next - tile, own == TileClass::partial};
  }
  return entries;
}

}  // namespace attnlab
