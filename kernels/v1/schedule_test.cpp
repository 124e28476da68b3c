// Tests what v1's kernels on a GPU take from the schedule: which tiles of keys visit which rows,
// against the definition, and their maps of shared memory.
#include "kernels/v1/schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/test_shared_memory.h"
#include "kernels/shared/tile_entries.h"
#include "kernels/v1/cuda.h"
#include "kernels/v1/cuda_tiles.h"

namespace attnlab::v1 {
namespace {

using cuda::SharedPart;

constexpr Tiling kTiling = {.block_m = 4, .block_n = 3};

// Checks all masks of windows and padding over a few rows and keys, each also with a block pattern,
// which leaves some tiles of rows, and some of keys, without anything to see.
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

// Returns the class of a whole tile, some of which may lie past the last row and key.
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

// A pattern comes with the classes that a kernel finds before the pass. Without one a last tile
// with rows that do not exist counts as partial.
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

TEST(V1SharedMemory, PartsOfTheForwardAreApart) {
  const int checked = cuda::for_each_config(
      kCuda, Pass::fwd, [](const Problem& problem, const Config& asked, const Device& device) {
        const ForwardConfig config = forward_config_of(problem, asked, device);
        const ForwardTiles tiles = forward_tiles(config);
        const i64 of_keys = i64{2} * config.block_n * config.head_dim;
        const i64 of_rows = i64{2} * config.block_m * config.head_dim;
        std::vector<SharedPart> parts = {{"K", tiles.k(), of_keys, kLineBytes},
                                         {"V", tiles.v(), of_keys, kLineBytes}};
        for (i32 team = 0; team < config.teams; ++team) {
          const auto add = [&](const char* name, i64 begin, i64 bytes, i64 alignment) {
            parts.push_back({name + std::to_string(team), begin, bytes, alignment});
          };
          const bool is_shared = config.splits > 1;  // then each split sends as much as it keeps
          add("Q", tiles.q_of(team, 0), of_rows, kLineBytes);
          add("next Q", tiles.q_of(team, 1), of_rows, kLineBytes);
          add("O", tiles.o_of(team), config.keeps_o ? 0 : 2 * of_rows, kLineBytes);
          add("partial O", tiles.partial_o_of(team),
              is_shared ? i64{2} * config.slice_rows * config.columns * 4 : 0, kChunkBytes);
          add("statistics", tiles.statistics_of(team),
              is_shared ? i64{8} * config.statistics_buffers() * config.splits * config.own_rows()
                        : 0,
              kChunkBytes);
          add("keys", tiles.keys_of(team), sizeof(KeyTile), kChunkBytes);
        }
        parts.push_back({"block", tiles.block(), sizeof(ForwardBlock), kChunkBytes});
        cuda::expect_apart(parts, tiles.bytes());
      });
  EXPECT_GT(checked, 0);
}

TEST(V1SharedMemory, PartsOfTheBackwardAreApart) {
  const int checked = cuda::for_each_config(
      kCuda, Pass::bwd, [](const Problem& problem, const Config& asked, const Device& device) {
        const BackwardConfig config = backward_config_of(problem, asked, device);
        const BackwardTiles tiles = backward_tiles(config);
        const i64 of_keys = i64{2} * config.block_n * config.head_dim;
        const i64 of_rows = i64{2} * config.block_m * config.head_dim;
        const i64 scores = i64{2} * config.block_n * config.block_m;
        const i64 statistic = i64{4} * config.block_m;
        std::vector<SharedPart> parts = {{"K", tiles.k(), of_keys, kLineBytes},
                                         {"V", tiles.v(), of_keys, kLineBytes}};
        for (i32 team = 0; team < config.teams; ++team) {
          const auto add = [&](const char* name, i64 begin, i64 bytes, i64 alignment) {
            parts.push_back({name + std::to_string(team), begin + i64{team} * tiles.team_bytes(),
                             bytes, alignment});
          };
          for (const i32 stage : {0, 1}) {
            add("Q", tiles.q_of(stage), of_rows, kLineBytes);
            add("dO", tiles.dout_of(stage), of_rows, kLineBytes);
            add("m", tiles.m_of(stage), statistic, kChunkBytes);
            add("l", tiles.l_of(stage), statistic, kChunkBytes);
            add("visits", tiles.visits_of(stage), kChunkBytes, kChunkBytes);
          }
          add("O", tiles.o(), of_rows, kLineBytes);
          add("dS", tiles.ds_tile(), scores, kChunkBytes);
          add("P", tiles.p_tile(), config.p_in_registers() ? 0 : scores, kChunkBytes);
          add("lse", tiles.lse(), statistic, kChunkBytes);
          add("delta", tiles.delta(), statistic, kChunkBytes);
          add("keys", tiles.keys(), sizeof(KeyTile), kChunkBytes);
        }
        parts.push_back({"block", tiles.block(), sizeof(BackwardBlock), kChunkBytes});
        cuda::expect_apart(parts, tiles.bytes());
      });
  EXPECT_GT(checked, 0);
}

// The place from which a team sends must not overlap the one where it looks up its work.
TEST(V1SharedMemory, ATeamSendsByWayOfWhatItIsDoneWith) {
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
