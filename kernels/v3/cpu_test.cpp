// Tests v3 on the CPU: closed forms of its traffic, and what its schedule promises.
#include "kernels/v3/cpu.h"

#include <vector>

#include "kernels/api/registry.h"
#include "kernels/cpu/test_support.h"
#include "kernels/v3/cpu_schedule.h"

namespace attnlab::v3 {
namespace {

using namespace cpu::testing_support;

constexpr i64 kPairs = kSeqlen / kBlock / kConsumers;

TEST(V3Traffic, ForwardReadsKeysOncePerPairOfQueryTiles) {
  expect_forward_traffic(kCpu, kPairs);  // half of v2's reads
  // Under a causal mask the two pairs of rows load 2 and 4 key tiles.
  const Traffic causal = traffic_of(kCpu, make_problem(Pass::fwd, "causal"));
  EXPECT_EQ(causal[Operand::k], reads(kSlices * (2 + 4) * kBlock * kHeadDim));
}

// Both tiles of a pair add to dQ once.
TEST(V3Traffic, BackwardReadsRowsOncePerPairOfKeyTiles) { expect_backward_traffic(kCpu, kPairs); }

// v2 and v3 compute alike: the same tiles computed and skipped, same products, same outputs.
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
  expect_workspace_linear_in_rows(kCpu);
}

// Every role relies on this: the tiles of a pair are those that at least one of its halves sees.
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
