// How a tile of 16-bit values lies in shared memory: rows follow one another, and within a row the
// 16-byte chunks are permuted by the row, so that eight rows of one chunk column touch all banks.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

constexpr i32 kChunkBytes = 16;  // eight values: the widest load
constexpr i32 kLineBytes = 128;  // of shared memory: all banks once

struct TileShape {
  i32 rows = 0;
  i32 columns = 0;  // a multiple of 16

  ATTNLAB_HD constexpr i32 chunks() const { return columns / 8; }
  ATTNLAB_HD constexpr i32 row_bytes() const { return columns * 2; }
  ATTNLAB_HD constexpr i32 bytes() const { return rows * row_bytes(); }
  // Chunks that change places among themselves: 8 of a line of 128 bytes, or 4 or 2 where a row has
  // no whole number of lines.
  ATTNLAB_HD constexpr i32 swizzle_chunks() const {
    return chunks() % 8 == 0 ? 8 : chunks() % 4 == 0 ? 4 : 2;
  }
  // What a chunk's index is XORed with in a row: rows that begin at the same bank differ in it.
  ATTNLAB_HD constexpr i32 swizzle(i32 row) const {
    const i32 rows_of_one = 8 / swizzle_chunks();  // consecutive rows that begin at different banks
    return row / rows_of_one % swizzle_chunks();
  }
  ATTNLAB_HD friend constexpr bool operator==(const TileShape&, const TileShape&) = default;
};

// Bytes from the tile's begin to a chunk.
ATTNLAB_HD constexpr i32 tile_offset(const TileShape& tile, i32 row, i32 chunk) {
  return row * tile.row_bytes() + (chunk ^ tile.swizzle(row)) * kChunkBytes;
}

// A tile as bulk copies with the swizzle of 128 bytes bring it and wgmma reads it: slabs of 64
// columns one behind the other, within a slab 128 bytes a row. Aligned to 1024 bytes.
struct SlabTile {
  i32 rows = 0;     // a multiple of 8
  i32 columns = 0;  // a multiple of 64

  static constexpr i32 kColumns = 64;  // of a slab
  static constexpr i32 kRowBytes = 128;
  ATTNLAB_HD constexpr i32 slabs() const { return columns / kColumns; }
  ATTNLAB_HD constexpr i32 slab_bytes() const { return rows * kRowBytes; }
  ATTNLAB_HD constexpr i32 bytes() const { return slabs() * slab_bytes(); }
  // Bytes from the tile's begin to a chunk.
  ATTNLAB_HD constexpr i32 offset(i32 row, i32 chunk) const {
    return chunk / 8 * slab_bytes() + row * kRowBytes + (chunk % 8 ^ row % 8) * kChunkBytes;
  }
  ATTNLAB_HD friend constexpr bool operator==(const SlabTile&, const SlabTile&) = default;
};

ATTNLAB_HD constexpr i32 tile_offset(const SlabTile& tile, i32 row, i32 chunk) {
  return tile.offset(row, chunk);
}

}  // namespace attnlab
