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

TEST(V3SharedMemory, PartsOfTheBackwardAreApart) {
  const int checked = cuda::for_each_config(
      kCuda, Pass::bwd, [](const Problem& problem, const Config& asked, const Device& /*device*/) {
        const BackwardConfig config = backward_config_of(problem, asked);
        const BackwardTiles tiles = backward_tiles(config);
        const i64 of_keys = i64{2} * config.block_n * config.head_dim;
        const i64 of_rows = i64{2} * config.block_m * config.head_dim;
        const i64 of_scores = i64{2} * config.block_m * config.block_n;
        const i64 of_statistic = i64{4} * config.block_m;
        // Consumers that share columns add dQ from registers, and pass P on, too.
        const i64 of_dq = config.shares_columns() ? 0 : i64{4} * config.block_m * config.head_dim;
        const i64 of_p = config.shares_columns() ? of_scores : 0;
        constexpr i64 kBulk = 16;  // bulk copies without a tensor map
        const i64 ring = 2 * kBarrierBytes;
        std::vector<cuda::SharedPart> parts = {
            {"K", tiles.k(), of_keys, kSwizzleBytes},
            {"V", tiles.v(), of_keys, kSwizzleBytes},
            {"dQ", tiles.dq(), of_dq, kBulk},
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
        cuda::expect_apart(parts, tiles.bytes());
      });
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace attnlab::v3
