#include "harness/plan/model.h"

#include <gtest/gtest.h>

#include "harness/plan/accounting.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

Problem square(std::int64_t seqlen, const char* mask = "none") {
  Problem problem;
  problem.seqlen_q = seqlen;
  problem.seqlen_k = seqlen;
  problem.mask = parse_mask(mask);
  return problem;
}

Problem packed(std::vector<std::int64_t> queries, std::vector<std::int64_t> keys) {
  Problem problem = square(64);
  problem.batch = static_cast<std::int64_t>(queries.size());
  problem.num_heads_q = 4;
  problem.num_heads_kv = 2;
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = queries, .keys = keys};
  return problem;
}

TEST(Model, ScoresOfALongBatchTake32GiB) {
  Problem problem = square(8192);
  problem.batch = 8;
  problem.num_heads_q = 32;
  problem.num_heads_kv = 8;
  problem.dtype = Dtype::f16;
  EXPECT_EQ(score_elements(problem), std::int64_t{8} * 32 * 8192 * 8192);
  EXPECT_EQ(score_bytes(problem), std::int64_t{32} << 30);
  problem.dtype = Dtype::f32;
  EXPECT_EQ(score_bytes(problem), std::int64_t{64} << 30);
}

TEST(Model, TheTileSetOf64RowsAndKeysTakes144AndAHalfKiB) {
  const TileBytes bytes = tile_bytes({.block_m = 64, .block_n = 64}, 128, Dtype::f32);
  constexpr std::int64_t kKib = 1024;
  for (const std::int64_t tile : {bytes.q, bytes.k, bytes.v, bytes.o}) EXPECT_EQ(tile, 32 * kKib);
  EXPECT_EQ(bytes.s, 16 * kKib);
  EXPECT_EQ(bytes.l, kKib / 4);
  EXPECT_EQ(bytes.m, kKib / 4);
  EXPECT_EQ(bytes.total(), 144 * kKib + kKib / 2);
}

TEST(Model, HalfPrecisionHalvesTheOperandsAlone) {
  const Tiling tiling = {.block_m = 32, .block_n = 64};
  const TileBytes half = tile_bytes(tiling, 128, Dtype::bf16);
  const TileBytes single = tile_bytes(tiling, 128, Dtype::f32);
  EXPECT_EQ(half.q, 32 * 128 * 2);
  EXPECT_EQ(half.k, 64 * 128 * 2);
  EXPECT_EQ(half.v, half.k);
  EXPECT_EQ(half.o, single.o);
  EXPECT_EQ(single.s, 32 * 64 * 4);
  EXPECT_EQ(half.s, single.s);
}

TEST(Model, ACausalGridOf4x4HasTenTilesToCompute) {
  const auto counts = count_tiles(square(256, "causal"), {.block_m = 64, .block_n = 64});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->full, 6);
  EXPECT_EQ(counts->partial, 4);
  EXPECT_EQ(counts->empty, 6);
}

TEST(Model, TilesAgreeWithAWalkOverAllPairs) {
  for (const char* mask : {"none", "causal", "window:20:5", "causal+blocks:local:1:16x16"}) {
    const Problem problem = square(83, mask);
    const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
    const Mask rule = make_mask(problem, 0, view_block_pattern(problem, pattern.data()));
    for (const Tiling tiling : {Tiling{16, 16}, Tiling{7, 32}, Tiling{100, 3}}) {
      TileCounts expected;
      for (std::int64_t row = 0; row < 83; row += tiling.block_m) {
        for (std::int64_t key = 0; key < 83; key += tiling.block_n) {
          std::int64_t seen = 0, all = 0;
          for (std::int64_t r = row; r < std::min<std::int64_t>(83, row + tiling.block_m); ++r) {
            for (std::int64_t c = key; c < key + tiling.block_n; ++c, ++all) {
              seen += c < 83 && is_visible(rule, r, c) ? 1 : 0;
            }
          }
          ++(seen == 0 ? expected.empty : seen == all ? expected.full : expected.partial);
        }
      }
      EXPECT_EQ(count_tiles(problem, tiling), expected) << mask << " " << tiling.block_m;
    }
  }
}

TEST(Model, TilesAreSummedOverTheBatch) {
  Problem problem = square(256, "causal");
  problem.batch = 3;
  problem.num_heads_q = 5;
  EXPECT_EQ(count_tiles(problem, {64, 64})->partial, 3 * 4);
  // The entries have 1x1, 2x2 and no tiles; all are full.
  const Problem ragged = packed({16, 32, 0}, {16, 32, 64});
  EXPECT_EQ(count_tiles(ragged, {16, 16})->full, 1 + 4);
  EXPECT_FALSE(count_tiles(square(1 << 20), {64, 64}));
}

TEST(Model, CompulsoryBytesOfOperandsAddUp) {
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    for (Problem problem : {square(100), square(100, "padding"), packed({7, 0, 64}, {9, 5, 64})}) {
      problem.pass = pass;
      problem.dtype = Dtype::f16;
      if (problem.mask.padding) problem.lengths = {.kind = LengthsKind::padding, .keys = {37}};
      const Traffic traffic = compulsory_traffic(problem);
      EXPECT_EQ(traffic.read_bytes() + traffic.write_bytes(), compulsory_bytes(problem))
          << problem.id();
    }
  }
}

TEST(Model, CompulsoryBytesByHand) {
  Problem problem = square(100, "padding");
  problem.num_heads_q = 4;
  problem.num_heads_kv = 2;
  problem.lengths = {.kind = LengthsKind::padding, .keys = {30}};
  problem.pass = Pass::bwd;
  const Traffic traffic = compulsory_traffic(problem);
  EXPECT_EQ(traffic[Operand::q], (OperandTraffic{4 * 100 * 64 * 4, 0}));
  EXPECT_EQ(traffic[Operand::k], (OperandTraffic{2 * 30 * 64 * 4, 0}));
  EXPECT_EQ(traffic[Operand::dv], (OperandTraffic{0, 2 * 100 * 64 * 4}));
  EXPECT_EQ(traffic[Operand::lse], (OperandTraffic{4 * 100 * 4, 0}));
  problem.pass = Pass::fwd;
  EXPECT_EQ(compulsory_traffic(problem)[Operand::lse], (OperandTraffic{0, 4 * 100 * 4}));
  EXPECT_EQ(compulsory_traffic(problem)[Operand::dq], OperandTraffic{});
}

TEST(Model, PairsCountWhatExists) {
  EXPECT_EQ(score_elements(packed({7, 0, 64}, {9, 5, 64})), 4 * (7 * 9 + 64 * 64));
  Problem causal = square(10, "causal");
  causal.num_heads_q = 3;
  EXPECT_EQ(visible_pairs(causal), 3 * 55);
  EXPECT_EQ(useful_flops(causal), 4 * visible_pairs(causal) * causal.head_dim);
}

TEST(Model, V1TilesFollowThePaper) {
  EXPECT_EQ(v1_tiling(49152, 64), (Tiling{.block_m = 64, .block_n = 192}));
  EXPECT_EQ(v1_tiling(49152, 128), (Tiling{.block_m = 96, .block_n = 96}));
  EXPECT_EQ(v1_tiling(257, 64), (Tiling{.block_m = 2, .block_n = 2}));  // rounded up
  EXPECT_EQ(v1_tiling(1, 256), (Tiling{.block_m = 1, .block_n = 1}));
}

TEST(Model, FormulasByHand) {
  const HbmFormulas formulas = hbm_formulas(1000, 100, 50'000, 0.25);
  EXPECT_DOUBLE_EQ(formulas.standard, 1.1e6);
  EXPECT_DOUBLE_EQ(formulas.flash, 2e5);
  EXPECT_DOUBLE_EQ(formulas.block_sparse, 1e5 + 5e4);
}

TEST(Model, APromptAndOneStepOfIt) {
  Problem problem = square(8192, "causal");
  problem.pass = Pass::fwdbwd;
  problem.seqlen_q = 100;
  EXPECT_EQ(score_elements(prefill_of(problem)), 67'108'864);
  EXPECT_EQ(score_elements(decode_step_of(problem)), 8192);
  EXPECT_EQ(visible_pairs(decode_step_of(problem)), 8192);  // the last row sees every key
  EXPECT_EQ(decode_step_of(problem).pass, Pass::fwd);
  const Problem ragged = packed({7, 0, 64}, {9, 5, 0});
  EXPECT_EQ(invalid(prefill_of(ragged)), "");
  EXPECT_EQ(score_elements(prefill_of(ragged)), 4 * (81 + 25));
  EXPECT_EQ(invalid(decode_step_of(ragged)), "");
  EXPECT_EQ(score_elements(decode_step_of(ragged)), 4 * (9 + 5));
}

TEST(Model, WhatCannotBeCountedSaysWhy) {
  EXPECT_EQ(uncountable(square(1 << 20)), "");
  EXPECT_PRED2(contains, uncountable(square(std::int64_t{1} << 27)), "lower --seqlen");
  Problem wide = square(1 << 16);
  wide.head_dim = std::int64_t{1} << 31;
  EXPECT_PRED2(contains, uncountable(wide), "--head-dim");
  Problem tall = square(1);
  tall.head_dim = 1;
  tall.batch = std::int64_t{1} << 29;
  EXPECT_PRED2(contains, uncountable(tall), "lower --batch");
  Problem pattern = square(64, "blocks:butterfly:16x16");
  EXPECT_EQ(uncountable(pattern), "");
  pattern.seqlen_q = 1;
  EXPECT_PRED2(contains, uncountable(pattern), "seqlen_q = seqlen_k");
}

}  // namespace
}  // namespace attnlab
