// Tests what v3's kernels on a GPU take from the schedule: their maps of shared memory.
#include "kernels/v3/schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/test_shared_memory.h"
#include "kernels/v3/cuda.h"
#include "kernels/v3/cuda_tiles.h"

namespace attnlab::v3 {
namespace {

constexpr i64 kBarrierBytes = 8;
constexpr i64 kSwizzleBytes = 1024;  // after which the swizzle of bulk copies and wgmma repeats

TEST(V3SharedMemory, PartsOfTheForwardAreApart) {
  const int checked = cuda::for_each_config(
      kCuda, Pass::fwd, [](const Problem& problem, const Config& asked, const Device& /*device*/) {
        const ForwardConfig config = forward_config_of(problem, asked);
        const ForwardTiles tiles = forward_tiles(config);
        const i64 of_keys = i64{2} * config.block_n * config.head_dim;
        const i64 of_rows = i64{2} * config.block_m() * config.head_dim;
        const i64 ring = 2 * kBarrierBytes;  // of a stage: full, empty
        std::vector<cuda::SharedPart> parts = {
            {"rings of Q", tiles.q_ring(), ring * config.q_stages, kBarrierBytes},
            {"rings of K", tiles.k_ring(), ring * config.stages, kBarrierBytes},
            {"rings of V", tiles.v_ring(), ring * config.stages, kBarrierBytes},
            {"rings of work tiles", tiles.work_tile_ring(), ring * kWorkTileStages, kBarrierBytes},
            {"asked", tiles.asked(), kBarrierBytes, kBarrierBytes}};
        for (i32 stage = 0; stage < config.q_stages; ++stage) {
          parts.push_back(
              {"Q" + std::to_string(stage), tiles.q_tile(stage), of_rows, kSwizzleBytes});
          EXPECT_TRUE(config.separate_o || tiles.o_tile(stage) == tiles.q_tile(stage));
        }
        if (config.separate_o) parts.push_back({"O", tiles.o_tile(0), of_rows, kSwizzleBytes});
        for (i32 stage = 0; stage < config.stages; ++stage) {
          const std::string number = std::to_string(stage);
          parts.push_back({"K" + number, tiles.k_tile(stage), of_keys, kSwizzleBytes});
          parts.push_back({"V" + number, tiles.v_tile(stage), of_keys, kSwizzleBytes});
        }
        for (i32 stage = 0; stage < kWorkTileStages; ++stage) {
          parts.push_back({"work tile" + std::to_string(stage), tiles.work_tile(stage),
                           sizeof(ForwardWorkTile), alignof(ForwardWorkTile)});
        }
        cuda::expect_apart(parts, tiles.bytes());
      });
  EXPECT_GT(checked, 0);
}

void expect_backward_apart(const Problem& problem, const Config& asked) {
  const BackwardConfig config = backward_config_of(problem, asked);
  const BackwardTiles tiles = backward_tiles(config);
  const i64 of_keys = i64{2} * config.block_n * config.head_dim;
  const i64 of_rows = i64{2} * config.block_m * config.head_dim;
  const i64 of_scores = i64{2} * config.block_m * config.block_n;
  const i64 of_statistic = i64{4} * config.block_m;
  // Consumers that share columns add dQ from registers, and pass P on, too.
  const i64 of_dq = config.shares_columns() ? 0 : i64{4} * config.block_m * config.head_dim;
  const i64 waiting = config.deterministic ? config.stages : 1;  // dQ of so many steps
  const i64 of_p = config.shares_columns() ? of_scores : 0;
  constexpr i64 kBulk = 16;  // bulk copies without a tensor map
  const i64 ring = 2 * kBarrierBytes;
  std::vector<cuda::SharedPart> parts = {
      {"K", tiles.k(), of_keys, kSwizzleBytes},
      {"V", tiles.v(), of_keys, kSwizzleBytes},
      {"dQ", tiles.dq(), waiting * of_dq, kBulk},
      {"work tile", tiles.work_tile(), sizeof(BackwardWorkTile), alignof(BackwardWorkTile)},
      {"ring of K and V", tiles.kv_ring(), ring, kBarrierBytes},
      {"ring of Q", tiles.q_ring(), ring * config.stages, kBarrierBytes},
      {"ring of dO", tiles.dout_ring(), ring * config.dout_stages(), kBarrierBytes}};
  for (i32 stage = 0; stage < config.stages; ++stage) {
    const std::string number = std::to_string(stage);
    parts.push_back({"Q" + number, tiles.q_of(stage), of_rows, kSwizzleBytes});
    parts.push_back({"P" + number, tiles.p_of(stage), of_p, kSwizzleBytes});
    parts.push_back({"dS" + number, tiles.ds_of(stage), of_scores, kSwizzleBytes});
    parts.push_back({"lse" + number, tiles.lse_of(stage), of_statistic, kBulk});
  }
  for (i32 stage = 0; stage < config.dout_stages(); ++stage) {
    const std::string number = std::to_string(stage);
    parts.push_back({"dO" + number, tiles.dout_of(stage), of_rows, kSwizzleBytes});
    parts.push_back({"delta" + number, tiles.delta_of(stage), of_statistic, kBulk});
  }
  if (config.deterministic) {
    parts.push_back({"ring of dQ", tiles.dq_ring(), ring * config.stages, kBarrierBytes});
    parts.push_back({"ticket", tiles.ticket(), sizeof(u32), alignof(u32)});
  }
  cuda::expect_apart(parts, tiles.bytes());
}

TEST(V3SharedMemory, PartsOfTheBackwardAreApart) {
  const int checked = cuda::for_each_config(
      kCuda, Pass::bwd, [](const Problem& problem, Config asked, const Device& device) {
        if (asked.get("deterministic") == 0) {
          asked.set("deterministic", 1);
          expect_backward_apart(problem, asked);
          EXPECT_EQ(kCuda.unsupported(problem, asked, device), "");
          asked.set("deterministic", 0);
        }
        expect_backward_apart(problem, asked);
      });
  EXPECT_GT(checked, 0);
}

// Plays the turns of tiles of rows: prepare_rows sets the first, and each tile of keys that visits
// a tile of rows must find there the one that comes before its own. That one is its neighbour, or
// under a block pattern the tile that the rows see before it.
void expect_turns(const Mask& mask, const Tiling& tiling, bool has_pattern) {
  for (i64 m_block = 0; m_block < tiling.m_blocks(mask.seqlen_q); ++m_block) {
    const Range rows = tile_range(m_block, tiling.block_m, mask.seqlen_q);
    i64 added = n_block_range(mask, rows, tiling.block_n).begin - 1;
    for (i64 n_block = 0; n_block < tiling.n_blocks(mask.seqlen_k); ++n_block) {
      const Range keys = tile_range(n_block, tiling.block_n, mask.seqlen_k);
      const Range seen = m_block_range(mask, keys, tiling.block_m);
      if (m_block < seen.begin || m_block >= seen.end) continue;
      if (has_pattern && classify(mask, rows, keys) == TileClass::empty) continue;
      const i64 before =
          has_pattern ? previous_n_block(mask, rows, tiling.block_n, n_block - 1) : n_block - 1;
      ASSERT_EQ(before, added) << "rows " << m_block << ", keys " << n_block;
      added = n_block;
    }
  }
}

TEST(V3BackwardTurns, EachTileOfKeysFindsTheOneBeforeItsOwn) {
  const std::vector<i64> lengths = {1, 31, 64, 100, 257, 640};
  for (const char* mask :
       {"none", "causal", "window:100:0", "window:0:0", "window:200:30", "window:-1:60",
        "window:50:-1", "padding", "padding+causal", "blocks:butterfly:64x64",
        "causal+blocks:bigbird:1:1:1:16x16", "padding+blocks:local:1:32x32"}) {
    for (const i64 seqlen_q : lengths) {
      for (const i64 seqlen_k : lengths) {
        Problem problem = {.batch = 2,
                           .seqlen_q = seqlen_q,
                           .seqlen_k = seqlen_k,
                           .head_dim = 64,
                           .mask = parse_mask(mask)};
        if (problem.has_pattern() && seqlen_q != seqlen_k) continue;
        if (problem.mask.padding) {
          problem.lengths = {
              .kind = LengthsKind::padding, .given = true, .keys = {seqlen_k, seqlen_k / 3}};
        }
        const std::vector<u8> pattern = make_block_pattern(problem);
        const BlockPattern blocks = view_block_pattern(problem, pattern.data());
        for (i64 batch = 0; batch < problem.batch; ++batch) {
          SCOPED_TRACE(problem.id());
          for (const Tiling& tiling : {Tiling{128, 128}, Tiling{64, 128}, Tiling{64, 80}}) {
            expect_turns(make_mask(problem, batch, blocks), tiling, problem.has_pattern());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnlab::v3
