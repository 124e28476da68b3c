// What v2's kernels on a GPU take from the schedule: their maps of shared memory.
#include "kernels/v2/schedule.h"

#include <gtest/gtest.h>

namespace attnlab::v2 {
namespace {

TEST(SharedMemory, PartsFollowOneAnother) {
  const ForwardConfig forward = {.head_dim = 64, .block_m = 128, .block_n = 64, .stages = 2};
  const ForwardTiles tiles = forward_tiles(forward);
  constexpr i32 kTile = 64 * 64 * 2;
  EXPECT_EQ(tiles.k_tile(0), 2 * kTile);
  EXPECT_EQ(tiles.v_tile(0), 3 * kTile);
  EXPECT_EQ(tiles.k_tile(1), 4 * kTile);
  EXPECT_EQ(tiles.block(), 6 * kTile);
  EXPECT_EQ(tiles.bytes(), 6 * kTile + static_cast<i32>(sizeof(ForwardBlock)));

  const BackwardConfig backward = {.head_dim = 64, .block_m = 64, .block_n = 128, .stages = 2};
  const BackwardTiles parts = backward_tiles(backward);
  EXPECT_EQ(parts.v(), 2 * kTile);
  EXPECT_EQ(parts.q_of(0), 4 * kTile);
  EXPECT_EQ(parts.dout_of(1), 7 * kTile);
  EXPECT_EQ(parts.ds(), 8 * kTile);
  EXPECT_EQ(parts.p_shared(), 10 * kTile);
  EXPECT_EQ(parts.lse_of(0), 12 * kTile);
  EXPECT_EQ(parts.delta_of(0), 12 * kTile + 64 * 4);
  EXPECT_EQ(parts.lse_of(1), 12 * kTile + 2 * 64 * 4);
  EXPECT_EQ(parts.block(), 12 * kTile + 4 * 64 * 4);
}

}  // namespace
}  // namespace attnlab::v2
