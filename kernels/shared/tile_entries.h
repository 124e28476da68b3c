// Gives tests the entries of a row of tiles by their definition.
#pragma once

#include "kernels/shared/tile_span.h"

namespace attnlab {

template <class Entries, class Classes>
Entries entries_of(const Classes& classes) {
  const i32 tiles = static_cast<i32>(classes.size());
  Entries entries(classes.size());
  i32 seen = tiles;
  for (i32 tile = tiles - 1; tile >= 0; --tile) {
    if (classes[static_cast<u64>(tile)] != TileClass::empty) seen = tile;
    entries[static_cast<u64>(tile)] = {seen - tile,
                                       classes[static_cast<u64>(tile)] == TileClass::partial};
  }
  return entries;
}

}  // namespace attnlab
