// v3 on the CPU: closed forms of its traffic, and what its schedule promises.
#include "kernels/v3/cpu.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include "kernels/api/registry.h"
#include "kernels/cpu/backend.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {
namespace {

constexpr i64 kBlock = 16, kSeqlen = 64, kHeadDim = 24;
constexpr i64 kSlices = 8, kSlicesKv = 4;  // batch x heads

Problem make_problem(Pass pass, const char* mask) {
  return {.pass = pass,
          .batch = 2,
          .num_heads_q = kSlices / 2,
          .num_heads_kv = kSlicesKv / 2,
          .seqlen_q = kSeqlen,
          .seqlen_k = kSeqlen,
          .head_dim = kHeadDim,
          .mask = parse_mask(mask)};
}

Traffic traffic_of(const Implementation& kernel, const Problem& problem) {
  Config config = default_config(kernel);
  config.set("block_m", kBlock);
  config.set("block_n", kBlock);
  return kernel.traffic(problem, config);
}

OperandTraffic reads(i64 elements) { return {.read_bytes = 4 * elements}; }
OperandTraffic writes(i64 elements) { return {.write_bytes = 4 * elements}; }

// K and V once per pair of query tiles: half of v2's reads.
TEST(V3Traffic, ForwardReadsKeysOncePerPairOfQueryTiles) {
  constexpr i64 kTensor = kSlices * kSeqlen * kHeadDim, kPairs = kSeqlen / kBlock / kConsumers;
  const Traffic full = traffic_of(kCpu, make_problem(Pass::fwd, "none"));
  EXPECT_EQ(full[Operand::q], reads(kTensor));
  EXPECT_EQ(full[Operand::k], reads(kPairs * kTensor));
  EXPECT_EQ(full[Operand::v], reads(kPairs * kTensor));
  EXPECT_EQ(full[Operand::o], writes(kTensor));
  EXPECT_EQ(full[Operand::lse], writes(kSlices * kSeqlen));
  EXPECT_EQ(full.tiles, (TileCounts{.full = kSlices * 16}));

  // A 4 x 4 causal grid computes 10 of its 16 tiles; its two pairs of rows load 2 and 4 key tiles.
  const Traffic causal = traffic_of(kCpu, make_problem(Pass::fwd, "causal"));
  EXPECT_EQ(causal.tiles,
            (TileCounts{.empty = kSlices * 6, .partial = kSlices * 4, .full = kSlices * 6}));
  EXPECT_EQ(causal[Operand::k], reads(kSlices * (2 + 4) * kBlock * kHeadDim));
}

// The row tensors once per pair of key tiles, and one addition to dQ for both.
TEST(V3Traffic, BackwardReadsRowsOncePerPairOfKeyTiles) {
  constexpr i64 kTensor = kSlices * kSeqlen * kHeadDim, kPairs = kSeqlen / kBlock / kConsumers;
  constexpr i64 kTensorKv = kSlicesKv * kSeqlen * kHeadDim, kRows = kSlices * kSeqlen;
  const Traffic full = traffic_of(kCpu, make_problem(Pass::bwd, "none"));
  EXPECT_EQ(full[Operand::q], reads(kPairs * kTensor));
  EXPECT_EQ(full[Operand::k], reads(kTensorKv));
  EXPECT_EQ(full[Operand::v], reads(kTensorKv));
  EXPECT_EQ(full[Operand::o], reads(kTensor));
  EXPECT_EQ(full[Operand::dout], reads((kPairs + 1) * kTensor));
  EXPECT_EQ(full[Operand::lse], reads(kPairs * kRows));
  EXPECT_EQ(full[Operand::delta],
            (OperandTraffic{.read_bytes = 4 * kPairs * kRows, .write_bytes = 4 * kRows}));
  // Sums: set to 0, added to by every pair of key tiles, read once more for the last scale.
  EXPECT_EQ(full[Operand::dq], (OperandTraffic{.read_bytes = 4 * (kPairs + 1) * kTensor,
                                               .write_bytes = 4 * (kPairs + 2) * kTensor}));
  EXPECT_EQ(full[Operand::dk], writes(kTensorKv));
  EXPECT_EQ(full[Operand::dv], writes(kTensorKv));
  EXPECT_EQ(full.executed_flops, 10 * kSlices * kSeqlen * kSeqlen * kHeadDim);
}

// One mathematics: the same tiles computed and skipped, the same products, the same outputs.
TEST(V3Traffic, ComputesTheTilesOfV2) {
  const Implementation& v2 = *builtin_registry().find("v2", Backend::cpu);
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    for (const char* mask : {"none", "causal", "window:20:3", "blocks:butterfly:8x16"}) {
      const Problem problem = make_problem(pass, mask);
      const Traffic ours = traffic_of(kCpu, problem), theirs = traffic_of(v2, problem);
      EXPECT_EQ(ours.tiles, theirs.tiles) << problem.id();
      EXPECT_EQ(ours.executed_flops, theirs.executed_flops) << problem.id();
      for (const Operand out : {Operand::o, Operand::lse, Operand::dk, Operand::dv}) {
        EXPECT_EQ(ours[out].write_bytes, theirs[out].write_bytes) << problem.id();
      }
    }
  }
}

TEST(V3, RowsThatSeeNothingLoadNothing) {
  Problem problem = make_problem(Pass::fwd, "causal");
  problem.seqlen_q = 2 * kSeqlen;  // the first half of the rows lies before the first key
  const Traffic traffic = traffic_of(kCpu, problem);
  EXPECT_EQ(traffic[Operand::q], reads(kSlices * kSeqlen * kHeadDim));
  EXPECT_EQ(traffic[Operand::o], writes(kSlices * problem.seqlen_q * kHeadDim));
}

TEST(V3, WorkspaceIsLinearInTheRowsAndIndependentOfTheKeys) {
  const Config config = default_config(kCpu);
  const Device device = cpu::cpu_device();
  const auto bytes = [&](Pass pass, i64 seqlen_q, i64 seqlen_k) {
    Problem problem = make_problem(pass, "none");
    problem.seqlen_q = seqlen_q;
    problem.seqlen_k = seqlen_k;
    return kCpu.workspace_bytes(problem, config, device);
  };
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    EXPECT_EQ(bytes(pass, 64, 64), bytes(pass, 64, 1 << 20));
  }
  EXPECT_EQ(bytes(Pass::fwd, 64, 64), bytes(Pass::fwd, 1 << 20, 64));
  EXPECT_EQ(bytes(Pass::bwd, 4096, 64) - bytes(Pass::bwd, 2048, 64),
            static_cast<u64>(kSlices * 2048 * (kHeadDim + 1) * 4));  // dQ sums and delta, fp32
}

TEST(V3Schedule, EveryBlockIsOneWorkItemAndLongOnesOfASectionGoFirst) {
  for (const bool last_first : {false, true}) {
    for (const i64 section : {1, 2, 4, 6, 100}) {
      const Grid grid = {
          .batch = 2, .heads = 3, .blocks = 5, .section = section, .last_block_first = last_first};
      std::set<std::tuple<i64, i64, i64>> seen;
      i64 last_section = 0, last_place = 0;
      for (i64 index = 0; index < work_items(grid); ++index) {
        const WorkItem item = work_item(grid, index);
        const i64 place = last_first ? grid.blocks - 1 - item.block : item.block;
        const i64 in_section = (item.batch * grid.heads + item.head) / section;
        if (in_section == last_section) {
          EXPECT_GE(place, last_place);
        } else {
          EXPECT_EQ(in_section, last_section + 1);
        }
        last_section = in_section;
        last_place = place;
        seen.insert({item.batch, item.head, item.block});
      }
      EXPECT_EQ(seen.size(), 30u) << "section " << section;
    }
  }
}

// What every role relies on: the tiles of a pair are those that at least one of its halves sees.
TEST(V3Schedule, RolesWalkTheTilesThatEitherConsumerSees) {
  constexpr i64 kRows = 70, kKeys = 90;
  const u8 pattern[] = {1, 0, 1, 0, 0, 0, 0, 1, 1};  // 3 x 3 blocks of 24 x 32
  for (const bool blocks : {false, true}) {
    for (const i64 left : {-1, 0, 9}) {
      for (const i64 right : {-1, 0, 5}) {
        Mask mask = {
            .seqlen_q = kRows, .seqlen_k = kKeys, .left = left, .right = right, .valid_k = 77};
        if (blocks) mask.blocks = {.visible = pattern, .block_q = 24, .block_k = 32, .blocks_k = 3};
        for (i64 pair = 0; pair < 3; ++pair) {
          const auto sees = [&](i64 m_block, i64 n_block) {
            return classify(mask, tile_range(m_block, kBlock, kRows),
                            tile_range(n_block, kBlock, kKeys)) != TileClass::empty;
          };
          std::vector<i64> want, got;
          for (i64 n = ceil_div(kKeys, kBlock) - 1; n >= 0; --n) {
            if (sees(2 * pair, n) || sees(2 * pair + 1, n)) want.push_back(n);
          }
          const KeyTiles keys(mask, tile_range(pair, 2 * kBlock, kRows), kBlock);
          for (i64 n = keys.last(); n >= 0; n = keys.before(n)) got.push_back(n);
          EXPECT_EQ(got, want) << "pair of query tiles " << pair;

          want.clear(), got.clear();
          for (i64 head = 0; head < 2; ++head) {
            for (i64 m = 0; m < ceil_div(kRows, kBlock); ++m) {
              if (sees(m, 2 * pair) || sees(m, 2 * pair + 1)) want.push_back(100 * head + m);
            }
          }
          const QueryTiles queries(mask, tile_range(pair, 2 * kBlock, mask.valid_k), kBlock, 2);
          for (QueryTile at = queries.first(); !queries.ended(at); at = queries.after(at)) {
            got.push_back(100 * at.head + at.m_block);
          }
          EXPECT_EQ(got, want) << "pair of key tiles " << pair;
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnlab::v3
