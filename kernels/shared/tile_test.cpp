// The swizzle of tiles permutes within rows, and puts no two rows of an ldmatrix phase in one
// bank.
#include "kernels/shared/tile.h"

#include <gtest/gtest.h>

#include <set>

namespace attnlab {
namespace {

TEST(Tile, EveryChunkHasAPlaceOfItsOwnInItsRow) {
  for (i32 columns = 16; columns <= 256; columns += 16) {
    const TileShape tile = {.rows = 32, .columns = columns};
    for (i32 row = 0; row < tile.rows; ++row) {
      std::set<i32> places;
      for (i32 chunk = 0; chunk < tile.chunks(); ++chunk) {
        const i32 place = tile_offset(tile, row, chunk) - row * tile.row_bytes();
        EXPECT_EQ(place % kChunkBytes, 0);
        EXPECT_TRUE(place >= 0 && place < tile.row_bytes()) << columns << " " << row;
        places.insert(place);
      }
      EXPECT_EQ(static_cast<i32>(places.size()), tile.chunks());
    }
  }
}

// ldmatrix reads one chunk of eight consecutive rows at a time; all banks are 128 bytes.
TEST(Tile, EightRowsOfAChunkColumnTouchAllBanks) {
  for (i32 columns = 16; columns <= 256; columns += 16) {
    const TileShape tile = {.rows = 32, .columns = columns};
    for (i32 first = 0; first < tile.rows; first += 8) {
      for (i32 chunk = 0; chunk < tile.chunks(); ++chunk) {
        std::set<i32> banks;
        for (i32 row = first; row < first + 8; ++row) {
          banks.insert(tile_offset(tile, row, chunk) % 128 / kChunkBytes);
        }
        EXPECT_EQ(banks.size(), 8U) << columns << " columns, rows from " << first;
      }
    }
  }
}

// store_accumulator() relies on this: rows 8 apart are swizzled alike.
TEST(Tile, TheTurnRepeatsEveryEightRows) {
  for (const i32 columns : {16, 32, 48, 64, 96, 128, 192, 256}) {
    const TileShape tile = {.rows = 32, .columns = columns};
    for (i32 row = 0; row + 8 < tile.rows; ++row)
      EXPECT_EQ(tile.swizzle(row), tile.swizzle(row + 8));
  }
}

}  // namespace
}  // namespace attnlab
