// Holds the count to numbers worked out by hand.
#include "kernels/v3/cuda_traffic.h"

#include <gtest/gtest.h>

#include <tuple>

#include "kernels/v3/cuda_units.h"

namespace attnlab::v3 {
namespace {

Problem problem_of(i64 seqlen, i64 head_dim, const char* mask) {
  return {.dtype = Dtype::f16,
          .seqlen_q = seqlen,
          .seqlen_k = seqlen,
          .head_dim = head_dim,
          .mask = parse_mask(mask),
          .layout = Layout::bhsd};
}

ForwardConfig config_of(i32 head_dim, i32 consumers, i32 block_n) {
  return {.head_dim = head_dim, .consumers = consumers, .block_n = block_n};
}

OperandTraffic reads(i64 bytes) { return {.read_bytes = bytes}; }
OperandTraffic writes(i64 bytes) { return {.write_bytes = bytes}; }

TEST(V3CudaTraffic, ConsumersWithoutRowsMultiplyToo) {
  const Traffic traffic = forward_traffic(problem_of(1024, 64, "none"), config_of(64, 3, 128));
  EXPECT_EQ(traffic.executed_flops, 6 * 8 * 4 * i64{192} * 128 * 64);  // 6 * 192 = 1152 rows
  EXPECT_EQ(traffic.tiles, (TileCounts{.full = 6 * 8}));
  EXPECT_EQ(traffic[Operand::q], reads(1024 * 64 * 2));
  EXPECT_EQ(traffic[Operand::k], reads(6 * 1024 * 64 * 2));
  EXPECT_EQ(traffic[Operand::v], reads(6 * 1024 * 64 * 2));
  EXPECT_EQ(traffic[Operand::o], writes(1024 * 64 * 2));
  EXPECT_EQ(traffic[Operand::lse], writes(1024 * 4));
}

TEST(V3CudaTraffic, ConsumersMultiplyBeyondTheirOwnBorder) {
  const Traffic traffic = forward_traffic(problem_of(512, 128, "causal"), config_of(128, 2, 64));
  EXPECT_EQ(traffic.executed_flops, (2 + 4 + 6 + 8) * 4 * i64{128} * 64 * 128);
  EXPECT_EQ(traffic.tiles, (TileCounts{.empty = 32 - 20, .partial = 4 * 2, .full = 12}));
  EXPECT_EQ(traffic[Operand::k], reads(20 * 64 * 128 * 2));
}

TEST(V3CudaTraffic, AtHeadDim256ConsumersPassOverTilesThatTheyDoNotSee) {
  constexpr i64 kTileOfConsumer = 4 * i64{64} * 64 * 256;  // FLOPs
  const ForwardConfig config = config_of(256, 2, 64);
  // The first consumer does not see the last tile of any of the four items.
  const Traffic causal = forward_traffic(problem_of(512, 256, "causal"), config);
  EXPECT_EQ(causal.executed_flops, ((2 + 4 + 6 + 8) * 2 - 4) * kTileOfConsumer);
  EXPECT_EQ(causal[Operand::k], reads(20 * 64 * 256 * 2));  // the second one does
  // The second consumer of the third item has no rows, and passes over two tiles of its five.
  const Traffic full = forward_traffic(problem_of(320, 256, "none"), config);
  EXPECT_EQ(full.executed_flops, (3 * 5 * 2 - 2) * kTileOfConsumer);
  const Traffic padded = forward_traffic(problem_of(64, 256, "none"), config);
  EXPECT_EQ(padded.executed_flops, 2 * kTileOfConsumer);  // not all of them
}

TEST(V3CudaTraffic, ColumnsOfZerosAreMultipliedAndNotRead) {
  const Traffic traffic = forward_traffic(problem_of(100, 96, "none"), config_of(128, 1, 64));
  EXPECT_EQ(traffic.executed_flops, 2 * 2 * 4 * i64{64} * 64 * 128);
  EXPECT_EQ(traffic[Operand::q], reads(100 * 96 * 2));
  EXPECT_EQ(traffic[Operand::k], reads(2 * 100 * 96 * 2));
}

// Tiles of 192 keys end within V^T's padding or beyond it; packed, the next entry follows.
TEST(V3CudaTraffic, OfVTransposedItsPaddingIsReadAndNothingBeyond) {
  ForwardConfig config = config_of(64, 3, 192);
  config.e4m3 = true;
  Problem problem = problem_of(200, 64, "none");
  problem.dtype = Dtype::e4m3;
  const Traffic dense = forward_traffic(problem, config);
  EXPECT_EQ(dense[Operand::k], reads(2 * 200 * 64));
  EXPECT_EQ(dense[Operand::v], reads(2 * 256 * 64));
  problem.layout = Layout::packed;
  problem.batch = 2;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {100, 200}, .keys = {100, 200}};
  // The first entry's keys begin at 0, the second one's at 128, and V^T has 128 (300 / 128 + 2)
  // keys. So its first tile is whole, and that of the second entry's last keys, too.
  EXPECT_EQ(forward_traffic(problem, config)[Operand::v], reads((192 + 2 * 2 * 192) * 64));
}

// Compares a unit's products with the schedule's count: each consumer starts one of each for a tile
// of keys.
TEST(V3CudaTraffic, TheProductsOfAUnitAreTheFlopsOfATile) {
  for (const auto& [head_dim, consumers, block_n] :
       {std::tuple(64, 3, 128), std::tuple(128, 2, 176), std::tuple(256, 2, 80)}) {
    const ForwardConfig config = config_of(head_dim, consumers, block_n);
    const Traffic tile = forward_traffic(problem_of(1, head_dim, "none"), config);
    i64 flops = 0;
    const KernelUnit unit = forward_unit(Dtype::f16, config);
    for (const WarpgroupProduct& product : unit.entries.front().products) {
      flops += i64{2} * 64 * product.columns * 16 * product.steps * consumers;
    }
    EXPECT_EQ(flops, tile.executed_flops) << head_dim;
  }
}

TEST(V3CudaTraffic, EveryQueryHeadReadsItsKeys) {
  Problem problem = problem_of(128, 64, "none");
  problem.batch = 3;
  problem.num_heads_q = 4;
  const Traffic traffic = forward_traffic(problem, config_of(64, 2, 128));
  EXPECT_EQ(traffic[Operand::k], reads(3 * 4 * 128 * 64 * 2));
}

TEST(V3CudaTraffic, RowsThatSeeNothingAreWrittenAndNotRead) {
  Problem problem = problem_of(256, 64, "causal");
  problem.seqlen_k = 128;  // the first 128 rows see no key
  const Traffic traffic = forward_traffic(problem, config_of(64, 2, 128));
  EXPECT_EQ(traffic[Operand::q], reads(128 * 64 * 2));
  EXPECT_EQ(traffic[Operand::k], reads(128 * 64 * 2));
  EXPECT_EQ(traffic[Operand::o], writes(256 * 64 * 2));
  EXPECT_EQ(traffic.tiles, (TileCounts{.empty = 1, .partial = 1}));
}

// Copies know the tensor's end, not that of a batch entry.
TEST(V3CudaTraffic, TilesReachIntoWhatLiesBehindAnEntry) {
  Problem padded = problem_of(200, 64, "padding");
  padded.batch = 2;
  padded.lengths = {.kind = LengthsKind::padding, .keys = {70, 200}};
  Traffic traffic = forward_traffic(padded, config_of(64, 1, 64));
  EXPECT_EQ(traffic[Operand::k], reads(4 * (2 * 64 + 200) * 64 * 2));

  Problem packed = problem_of(100, 64, "none");
  packed.batch = 2;
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed, .queries = {10, 100}, .keys = {70, 100}};
  traffic = forward_traffic(packed, config_of(64, 1, 64));
  // Entry 0 has one item, 64 rows and two whole tiles, which reach into entry 1. Entry 1 has two
  // items, of 64 and 36 rows, and both tiles end with the tensor.
  EXPECT_EQ(traffic[Operand::q], reads((64 + 100) * 64 * 2));
  EXPECT_EQ(traffic[Operand::k], reads((128 + 2 * 100) * 64 * 2));
  EXPECT_EQ(traffic[Operand::o], writes((10 + 100) * 64 * 2));
  EXPECT_EQ(traffic[Operand::lse], writes((10 + 100) * 4));
}

TEST(V3CudaTraffic, APatternsTilesAreThoseThatAnyRowSees) {
  // Items have 128 rows of 64 x 64 blocks on the diagonal: two tiles of 64 keys, partial each.
  const Traffic traffic =
      forward_traffic(problem_of(256, 64, "blocks:local:0:64x64"), config_of(64, 2, 64));
  EXPECT_EQ(traffic.tiles, (TileCounts{.empty = 4, .partial = 4}));
  EXPECT_EQ(traffic.executed_flops, 4 * 4 * i64{128} * 64 * 64);
}

BackwardConfig backward_of(i32 head_dim) {
  return {.head_dim = head_dim, .block_m = head_dim == 64 ? 128 : 64};
}

// Takes tiles of 128 x 128, two of rows by two of keys, one of which nobody sees.
TEST(V3CudaTraffic, ABackwardAddsToSumsAndReadsStatisticsOfWholeTiles) {
  const Traffic traffic = backward_traffic(problem_of(250, 64, "causal"), backward_of(64));
  constexpr i64 kRowBytes = 64 * 2, kSums = 128 * 64 * 4, kStatistic = 128 * 4;
  EXPECT_EQ(traffic.tiles, (TileCounts{.empty = 1, .partial = 3}));
  EXPECT_EQ(traffic.executed_flops, 3 * 10 * i64{128} * 128 * 64);
  EXPECT_EQ(traffic[Operand::k], reads(250 * kRowBytes));
  EXPECT_EQ(traffic[Operand::v], reads(250 * kRowBytes));
  EXPECT_EQ(traffic[Operand::q], reads((250 + 122) * kRowBytes));
  EXPECT_EQ(traffic[Operand::dout], reads((250 + 250 + 122) * kRowBytes));  // and once for delta
  EXPECT_EQ(traffic[Operand::o], reads(250 * kRowBytes));
  EXPECT_EQ(traffic[Operand::lse], reads(250 * 4 + 3 * kStatistic));
  EXPECT_EQ(traffic[Operand::delta], (OperandTraffic{3 * kStatistic, 2 * 2 * kStatistic}));
  EXPECT_EQ(traffic[Operand::dq], (OperandTraffic{2 * kSums, 5 * kSums + 250 * kRowBytes}));
  EXPECT_EQ(traffic[Operand::dk], writes(250 * kRowBytes));
  EXPECT_EQ(traffic[Operand::dv], writes(250 * kRowBytes));
}

TEST(V3CudaTraffic, ABackwardReadsTheKeysOfItsHeadsOnce) {
  Problem problem = problem_of(128, 128, "none");
  problem.num_heads_q = 6;
  problem.num_heads_kv = 2;
  const Traffic traffic = backward_traffic(problem, backward_of(128));
  EXPECT_EQ(traffic[Operand::k], reads(2 * 128 * 128 * 2));
  EXPECT_EQ(traffic[Operand::q], reads(6 * 128 * 128 * 2));
  EXPECT_EQ(traffic[Operand::dk], writes(2 * 128 * 128 * 2));
  EXPECT_EQ(traffic.tiles, (TileCounts{.full = 6 * 2}));
}

TEST(V3CudaTraffic, KeysThatNobodySeesGetZeros) {
  Problem problem = problem_of(256, 64, "padding");
  problem.lengths = {.kind = LengthsKind::padding, .keys = {100}};
  const Traffic traffic = backward_traffic(problem, backward_of(64));
  EXPECT_EQ(traffic.tiles, (TileCounts{.empty = 2, .partial = 2}));
  EXPECT_EQ(traffic[Operand::k], reads(128 * 64 * 2));
  EXPECT_EQ(traffic[Operand::dk], writes(256 * 64 * 2));
}

// Takes tiles of 64 x 96 at three slabs of columns, the last half empty: requested bytes are those
// of the tensors' columns, sums of dQ those of whole slabs.
TEST(V3CudaTraffic, ABackwardOfManyColumnsReadsItsOwnAndSumsWholeSlabs) {
  BackwardConfig config = backward_of(192);
  config.block_n = 96;
  const Traffic traffic = backward_traffic(problem_of(100, 160, "none"), config);
  constexpr i64 kRowBytes = 160 * 2, kSums = 64 * 192 * 4, kStatistic = 64 * 4;
  EXPECT_EQ(traffic.executed_flops, 4 * 10 * i64{64} * 96 * 192);
  EXPECT_EQ(traffic[Operand::k], reads(100 * kRowBytes));
  EXPECT_EQ(traffic[Operand::q], reads(2 * 100 * kRowBytes));
  EXPECT_EQ(traffic[Operand::lse], reads(100 * 4 + 4 * kStatistic));
  EXPECT_EQ(traffic[Operand::dq], (OperandTraffic{2 * kSums, 6 * kSums + 100 * kRowBytes}));
  EXPECT_EQ(traffic[Operand::dv], writes(100 * kRowBytes));
}

// A backward does as the forward: each consumer starts one of each product for its part of a tile.
TEST(V3CudaTraffic, TheProductsOfABackwardsUnitAreTheFlopsOfATile) {
  struct Tile {
    i32 head_dim, block_n, instructions;
  };
  for (const auto& [head_dim, block_n, wanted] :
       {Tile{64, 128, 32}, Tile{128, 128, 32}, Tile{192, 96, 38}, Tile{256, 80, 58},
        Tile{256, 64, 56}}) {
    BackwardConfig config = backward_of(head_dim);
    config.block_n = block_n;
    const Traffic tile = backward_traffic(problem_of(1, head_dim, "none"), config);
    const KernelUnit unit = backward_unit(Dtype::f16, config);
    i64 flops = 0, instructions = 0;
    for (const WarpgroupProduct& product : unit.entries.at(1).products) {
      flops += i64{2} * 64 * product.columns * 16 * product.steps * config.consumers();
      instructions += product.steps;
    }
    EXPECT_EQ(flops, tile.executed_flops) << head_dim;
    EXPECT_EQ(instructions, wanted) << head_dim;
  }
}

}  // namespace
}  // namespace attnlab::v3
