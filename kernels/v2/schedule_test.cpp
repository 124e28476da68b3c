// Tests what v2's kernels on a GPU take from the schedule: their maps of shared memory.
#include "kernels/v2/schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/test_shared_memory.h"
#include "kernels/v2/cuda.h"
#include "kernels/v2/cuda_tiles.h"

namespace attnlab::v2 {
namespace {

using cuda::SharedPart;

TEST(V2SharedMemory, PartsOfTheForwardAreApart) {
  const int checked = cuda::for_each_config(
      kCuda, Pass::fwd, [](const Problem& problem, const Config& asked, const Device& device) {
        const ForwardConfig config = forward_config_of(problem, asked, device);
        const ForwardTiles tiles = forward_tiles(config);
        const i64 of_keys = i64{2} * config.block_n * config.head_dim;
        const i64 of_rows = i64{2} * config.block_m * config.head_dim;
        std::vector<SharedPart> parts = {
            {"Q", tiles.q_tile(), of_rows, kLineBytes},
            {"block", tiles.block(), sizeof(ForwardBlock), kChunkBytes}};
        for (i32 stage = 0; stage < config.stages; ++stage) {
          const std::string number = std::to_string(stage);
          parts.push_back({"K" + number, tiles.k_tile(stage), of_keys, kLineBytes});
          parts.push_back({"V" + number, tiles.v_tile(stage), of_keys, kLineBytes});
        }
        cuda::expect_apart(parts, tiles.bytes());
      });
  EXPECT_GT(checked, 0);
}

TEST(V2SharedMemory, PartsOfTheBackwardAreApart) {
  const int checked = cuda::for_each_config(
      kCuda, Pass::bwd, [](const Problem& problem, const Config& asked, const Device& device) {
        const BackwardConfig config = backward_config_of(problem, asked, device);
        const BackwardTiles tiles = backward_tiles(config);
        const i64 of_keys = i64{2} * config.block_n * config.head_dim;
        const i64 of_rows = i64{2} * config.block_m * config.head_dim;
        const i64 scores = i64{2} * config.block_n * config.block_m;
        const i64 statistic = i64{4} * config.block_m;
        std::vector<SharedPart> parts = {
            {"K", tiles.k(), of_keys, kLineBytes},
            {"V", tiles.v(), of_keys, kLineBytes},
            {"dS", tiles.ds(), scores, kChunkBytes},
            {"P", tiles.p_shared(), config.p_in_registers ? 0 : scores, kChunkBytes},
            {"block", tiles.block(), sizeof(BackwardBlock), kChunkBytes}};
        for (i32 stage = 0; stage < config.stages; ++stage) {
          const std::string number = std::to_string(stage);
          parts.push_back({"Q" + number, tiles.q_of(stage), of_rows, kLineBytes});
          parts.push_back({"dO" + number, tiles.dout_of(stage), of_rows, kLineBytes});
          parts.push_back({"lse" + number, tiles.lse_of(stage), statistic, kChunkBytes});
          parts.push_back({"delta" + number, tiles.delta_of(stage), statistic, kChunkBytes});
        }
        cuda::expect_apart(parts, tiles.bytes());
      });
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace attnlab::v2
