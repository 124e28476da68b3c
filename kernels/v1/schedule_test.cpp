// What v1's kernels on a GPU take from the schedule: which tiles of keys visit which rows, against
// the definition, and their maps of shared memory.
#include "kernels/v1/schedule.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/shared/tile_entries.h"

namespace attnlab::v1 {
namespace {

constexpr Tiling kTiling = {.block_m = 4, .block_n = 3};

// All masks of windows and padding over a few rows and keys, each also with a block pattern, which
// leaves some tiles of rows, and some of keys, without anything to see.
template <class Check>
void for_masks(const Check& check) {
  constexpr u8 kVisible[] = {1, 0, 1,  //
                             0, 0, 0,  //
                             1, 0, 0};
  const BlockPattern pattern = {.visible = kVisible, .block_q = 6, .block_k = 7, .blocks_k = 3};
  for (const BlockPattern& blocks : {BlockPattern{}, pattern}) {
    for (const i64 seqlen_q : {1, 9, 15}) {
      for (const i64 seqlen_k : {1, 9, 16}) {
        for (i64 valid_k = 0; valid_k <= seqlen_k; ++valid_k) {
          for (i64 left = -1; left <= 6; ++left) {
            for (i64 right = -1; right <= 6; ++right) {
              check(Mask{.seqlen_q = seqlen_q,
                         .seqlen_k = seqlen_k,
                         .left = left,
                         .right = right,
                         .valid_k = valid_k,
                         .blocks = blocks});
            }
          }
        }
      }
    }
  }
}

// Of a whole tile, some of which may lie past the last row and key.
TileClass class_of(const Mask& mask, i64 m_block, i64 n_block) {
  const auto [block_m, block_n] = kTiling;
  int visible = 0;
  for (i64 row = m_block * block_m; row < min(mask.seqlen_q, (m_block + 1) * block_m); ++row) {
    for (i64 key = n_block * block_n; key < min(mask.seqlen_k, (n_block + 1) * block_n); ++key) {
      visible += is_visible(mask, row, key) ? 1 : 0;
    }
  }
  if (visible == 0) return TileClass::empty;
  return visible == block_m * block_n ? TileClass::full : TileClass::partial;
}

TEST(RowVisits, AreTheFirstAndTheLastTileOfKeysThatRowsSee) {
  for_masks([](const Mask& mask) {
    for (i64 m_block = 0; m_block < kTiling.m_blocks(mask.seqlen_q); ++m_block) {
      std::vector<i64> seen;
      for (i64 n_block = 0; n_block < kTiling.n_blocks(mask.seqlen_k); ++n_block) {
        if (class_of(mask, m_block, n_block) != TileClass::empty) seen.push_back(n_block);
      }
      const Range rows = tile_range(m_block, kTiling.block_m, mask.seqlen_q);
      const RowVisits visits = row_visits_of(mask, rows, kTiling.block_n);
      ASSERT_EQ(visits.any(), !seen.empty());
      if (seen.empty()) continue;
      ASSERT_EQ(visits.first, seen.front());
      ASSERT_EQ(visits.last, seen.back());
    }
  });
}

// Under a pattern with the classes that a kernel finds before the pass, otherwise without any: then
// a last tile with rows that do not exist counts as partial.
TEST(RowsOfKeys, AreTheTilesOfRowsThatSeeThem) {
  for_masks([](const Mask& mask) {
    const i32 m_blocks = static_cast<i32>(kTiling.m_blocks(mask.seqlen_q));
    for (i64 n_block = 0; n_block < kTiling.n_blocks(mask.seqlen_k); ++n_block) {
      const Range keys = {n_block * kTiling.block_n, (n_block + 1) * kTiling.block_n};
      const bool has_pattern = mask.blocks.visible != nullptr;
      std::vector<TileClass> classes;
      std::vector<i32> want, visited;
      for (i32 m_block = 0; m_block < m_blocks; ++m_block) {
        classes.push_back(
            classify(mask, tile_range(m_block, kTiling.block_m, mask.seqlen_q), keys));
        if (class_of(mask, m_block, n_block) != TileClass::empty) want.push_back(m_block);
      }
      const auto entries = entries_of<std::vector<TileEntry>>(classes);
      const TileSpan span =
          rows_of_keys(mask, keys, kTiling.block_m, has_pattern ? entries.data() : nullptr);
      for (i32 m_block = span.begin; m_block < span.end; m_block = span.not_empty(m_block + 1)) {
        visited.push_back(m_block);
        if (has_pattern) continue;
        ASSERT_EQ(span.is_partial(m_block), class_of(mask, m_block, n_block) == TileClass::partial);
      }
      ASSERT_EQ(visited, want);
    }
  });
}

struct Part {
  i32 begin = 0;
  i32 bytes = 0;
};

// The parts, in the order in which they should lie, and all that they need.
void expect_one_after_another(const std::vector<Part>& parts, i32 bytes) {
  i32 end = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].begin, end) << "part " << i;
    EXPECT_EQ(end % kChunkBytes, 0) << "part " << i;
    end = parts[i].begin + parts[i].bytes;
  }
  EXPECT_EQ(bytes, end);
}

TEST(SharedMemory, OfTheForwardHasPartsOfEachTeam) {
  for (const ForwardConfig& config :
       {ForwardConfig{},
        ForwardConfig{.head_dim = 32, .block_m = 96, .block_n = 80, .teams = 1, .splits = 1},
        ForwardConfig{
            .head_dim = 256, .block_m = 16, .block_n = 64, .slice_rows = 16, .columns = 32},
        ForwardConfig{.head_dim = 256,
        .block_m = 16,
        .block_n = 128,
        .slice_rows = 16,
        .columns = 32,
        .keeps_o = true}}) {
    const ForwardTiles tiles = forward_tiles(config);
    const i32 of_keys = config.block_n * config.head_dim * 2;
    const i32 of_rows = config.block_m * config.head_dim * 2;
    std::vector<Part> parts = {{tiles.k(), of_keys}, {tiles.v(), of_keys}};
    for (i32 team = 0; team < config.teams; ++team) {
      for (const i32 copied : {tiles.q_of(team, 0), tiles.q_of(team, 1), tiles.o_of(team)}) {
        EXPECT_EQ(copied % kLineBytes, 0) << "team " << team;
      }
      const bool is_shared = config.splits > 1;  // then each split sends as much as it keeps
      const i32 part = is_shared ? config.slice_rows * config.columns * 4 : 0;
      const i32 softmax = is_shared ? config.splits * config.own_rows() * 8 : 0;
      parts.push_back({tiles.q_of(team, 0), of_rows});
      parts.push_back({tiles.q_of(team, 1), of_rows});
      parts.push_back({tiles.o_of(team), config.keeps_o ? 0 : 2 * of_rows});
      parts.push_back({tiles.parts_of(team), 2 * part});
      parts.push_back({tiles.softmaxes_of(team), config.softmax_places() * softmax});
      parts.push_back({tiles.keys_of(team), round_up<i32>(sizeof(KeyTile), kLineBytes)});
    }
    parts.push_back({tiles.block(), sizeof(ForwardBlock)});
    expect_one_after_another(parts, tiles.bytes());
  }
}

TEST(SharedMemory, OfTheBackwardHasPartsOfEachTeam) {
  for (const BackwardConfig& config :
       {BackwardConfig{}, BackwardConfig{.teams = 2},
        BackwardConfig{.head_dim = 32, .block_m = 16, .teams = 2, .dropout = true},
        BackwardConfig{.head_dim = 256, .block_m = 48, .block_n = 32}}) {
    const BackwardTiles tiles = backward_tiles(config);
    const i32 of_keys = config.block_n * config.head_dim * 2;
    const i32 of_rows = config.block_m * config.head_dim * 2;
    const i32 scores = config.block_n * config.block_m * 2, statistic = config.block_m * 4;
    const i32 of_team = tiles.team_bytes();
    std::vector<Part> parts = {{tiles.k(), of_keys}, {tiles.v(), of_keys}};
    for (i32 team = 0; team < config.teams; ++team) {
      const auto add = [&](i32 offset, i32 bytes) {
        parts.push_back({offset + team * of_team, bytes});
      };
      for (const i32 copied :
           {tiles.q_of(0), tiles.dout_of(0), tiles.q_of(1), tiles.dout_of(1), tiles.o()}) {
        EXPECT_EQ((copied + team * of_team) % kLineBytes, 0) << "team " << team;
        add(copied, of_rows);
      }
      add(tiles.ds_tile(), scores);
      if (config.teams == 1) add(tiles.p_tile(), scores);
      for (const i32 stage : {0, 1}) {
        add(tiles.m_of(stage), statistic);
        add(tiles.l_of(stage), statistic);
      }
      add(tiles.lse(), statistic);
      add(tiles.delta(), statistic);
      for (const i32 stage : {0, 1}) add(tiles.visits_of(stage), kChunkBytes);
      const i32 end = tiles.q_of(0) + of_team;
      EXPECT_GE(end - tiles.keys(), static_cast<i32>(sizeof(KeyTile)));
      add(tiles.keys(), end - tiles.keys());
    }
    parts.push_back({tiles.block(), sizeof(BackwardBlock)});
    expect_one_after_another(parts, tiles.bytes());
  }
}

// What a team sends must not lie where it looks up its work.
TEST(SharedMemory, ATeamSendsByWayOfWhatItIsDoneWith) {
  const auto sends = [](i32 head_dim, i32 block_m) {
    return backward_tiles({.head_dim = head_dim, .block_m = block_m, .teams = 2}).sends();
  };
  EXPECT_TRUE(sends(64, 64));   // 32 KiB of 56 KiB
  EXPECT_FALSE(sends(64, 32));  // of 28 KiB
  EXPECT_TRUE(sends(32, 32));   // 16 KiB of 18 KiB
  EXPECT_FALSE(sends(32, 16));
}

}  // namespace
}  // namespace attnlab::v1
