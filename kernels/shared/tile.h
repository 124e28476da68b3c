// Says how a tile lies in shared memory: rows follow one another, and within a row the 16-byte
// chunks are permuted by the row, so that eight rows of one chunk column touch all banks.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

constexpr i32 kChunkBytes = 16;  // eight 16-bit values: the widest load
constexpr i32 kLineBytes = 128;  // of shared memory: all banks once

// TileShape is the shape of a tile of 16-bit values.
struct TileShape {
  i32 rows = 0;
  i32 columns = 0;  // a multiple of 16

  ATTNLAB_HD constexpr i32 chunks() const { return columns / 8; }
  ATTNLAB_HD constexpr i32 row_bytes() const { return columns * 2; }
  ATTNLAB_HD constexpr i32 bytes() const { return rows * row_bytes(); }
  // Returns how many chunks change places among themselves: 8 of a line of 128 bytes, or 4 or 2
  // where a row has no whole number of lines.
  ATTNLAB_HD constexpr i32 swizzle_chunks() const {
    return chunks() % 8 == 0 ? 8 : chunks() % 4 == 0 ? 4 : 2;
  }
  // Returns what a row XORs its chunks' index with: rows that begin at the same bank differ in it.
  ATTNLAB_HD constexpr i32 swizzle(i32 row) const {
    const i32 rows_of_one = 8 / swizzle_chunks();  // consecutive rows that begin at different banks
    return row / rows_of_one % swizzle_chunks();
  }
  ATTNLAB_HD friend constexpr bool operator==(const TileShape&, const TileShape&) = default;
};

// Returns the bytes from the tile's begin to a chunk.
ATTNLAB_HD constexpr i32 tile_offset(const TileShape& tile, i32 row, i32 chunk) {
  return row * tile.row_bytes() + (chunk ^ tile.swizzle(row)) * kChunkBytes;
}

// SlabTile is a tile as bulk copies with a swizzle bring it and wgmma reads it: slabs of columns
// one behind the other. A row of a slab has as many bytes as the swizzle is wide: 128, which are 64
// columns of 16-bit values or 128 of 8-bit ones, or 64 where 8-bit columns are no whole number of
// 128. It is aligned to 1024 bytes.
struct SlabTile {
  i32 rows = 0;     // a multiple of 8
  i32 columns = 0;  // a multiple of 64
  i32 element_bytes = 2;

  static constexpr i32 kColumns = 64;    // of a slab of 16-bit values
  static constexpr i32 kRowBytes = 128;  // of such a slab
  ATTNLAB_HD constexpr i32 row_bytes() const {
    return columns * element_bytes % 128 == 0 ? 128 : 64;
  }
  ATTNLAB_HD constexpr i32 slab_columns() const { return row_bytes() / element_bytes; }
  ATTNLAB_HD constexpr i32 slabs() const { return columns / slab_columns(); }
  ATTNLAB_HD constexpr i32 slab_bytes() const { return rows * row_bytes(); }
  ATTNLAB_HD constexpr i32 bytes() const { return slabs() * slab_bytes(); }
  // Returns the bytes from the tile's begin to a chunk. The swizzle goes by lines of 128 bytes.
  ATTNLAB_HD constexpr i32 offset(i32 row, i32 chunk) const {
    const i32 chunks = row_bytes() / kChunkBytes;  // of a row of a slab
    const i32 line = row * row_bytes() / kLineBytes;
    return chunk / chunks * slab_bytes() + row * row_bytes() +
           (chunk % chunks ^ line % chunks) * kChunkBytes;
  }
  ATTNLAB_HD friend constexpr bool operator==(const SlabTile&, const SlabTile&) = default;
};

ATTNLAB_HD constexpr i32 tile_offset(const SlabTile& tile, i32 row, i32 chunk) {
  return tile.offset(row, chunk);
}

}  // namespace attnlab
