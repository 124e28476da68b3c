// v2 on the CPU: closed forms of its traffic, and what its work partitioning promises.
#include "kernels/v2/cpu.h"

#include <gtest/gtest.h>

#include "kernels/cpu/backend.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {
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

Traffic traffic_of(const Problem& problem) {
  Config config = default_config(kCpu);
  config.set("block_m", kBlock);
  config.set("block_n", kBlock);
  return kCpu.traffic(problem, config);
}

OperandTraffic reads(i64 elements) { return {.read_bytes = 4 * elements}; }
OperandTraffic writes(i64 elements) { return {.write_bytes = 4 * elements}; }

TEST(V2Traffic, ForwardReadsKeysOncePerQueryTile) {
  constexpr i64 kTensor = kSlices * kSeqlen * kHeadDim, kTiles = kSeqlen / kBlock;
  const Traffic full = traffic_of(make_problem(Pass::fwd, "none"));
  EXPECT_EQ(full[Operand::q], reads(kTensor));
  EXPECT_EQ(full[Operand::k], reads(kTiles * kTensor));
  EXPECT_EQ(full[Operand::v], reads(kTiles * kTensor));
  EXPECT_EQ(full[Operand::o], writes(kTensor));
  EXPECT_EQ(full[Operand::lse], writes(kSlices * kSeqlen));
  EXPECT_EQ(full.write_bytes(), 4 * (kTensor + kSlices * kSeqlen));
  EXPECT_EQ(full.tiles, (TileCounts{.full = kSlices * kTiles * kTiles}));

  // A 4 x 4 causal grid computes 10 of its 16 tiles, 4 of them on the diagonal.
  const Traffic causal = traffic_of(make_problem(Pass::fwd, "causal"));
  EXPECT_EQ(causal.tiles,
            (TileCounts{.empty = kSlices * 6, .partial = kSlices * 4, .full = kSlices * 6}));
  EXPECT_EQ(causal[Operand::k], reads(kSlices * 10 * kBlock * kHeadDim));
  EXPECT_EQ(causal.executed_flops, kSlices * 10 * 4 * kBlock * kBlock * kHeadDim);
}

// K and V once per K/V head, not per query head; the row tensors once per tile of keys.
TEST(V2Traffic, BackwardReadsRowsOncePerKeyTile) {
  constexpr i64 kTensor = kSlices * kSeqlen * kHeadDim, kTiles = kSeqlen / kBlock;
  constexpr i64 kTensorKv = kSlicesKv * kSeqlen * kHeadDim, kRows = kSlices * kSeqlen;
  const Traffic full = traffic_of(make_problem(Pass::bwd, "none"));
  EXPECT_EQ(full[Operand::q], reads(kTiles * kTensor));
  EXPECT_EQ(full[Operand::k], reads(kTensorKv));
  EXPECT_EQ(full[Operand::v], reads(kTensorKv));
  EXPECT_EQ(full[Operand::o], reads(kTensor));
  EXPECT_EQ(full[Operand::dout], reads((kTiles + 1) * kTensor));
  EXPECT_EQ(full[Operand::lse], reads(kTiles * kRows));
  EXPECT_EQ(full[Operand::delta],
            (OperandTraffic{.read_bytes = 4 * kTiles * kRows, .write_bytes = 4 * kRows}));
  // Sums: set to 0, added to by every tile of keys, read once more for the last scale.
  EXPECT_EQ(full[Operand::dq], (OperandTraffic{.read_bytes = 4 * (kTiles + 1) * kTensor,
                                               .write_bytes = 4 * (kTiles + 2) * kTensor}));
  EXPECT_EQ(full[Operand::dk], writes(kTensorKv));
  EXPECT_EQ(full[Operand::dv], writes(kTensorKv));
  EXPECT_EQ(full.executed_flops, 10 * kSlices * kSeqlen * kSeqlen * kHeadDim);

  Traffic both = traffic_of(make_problem(Pass::fwd, "none"));
  both += full;
  EXPECT_EQ(traffic_of(make_problem(Pass::fwdbwd, "none")), both);
  EXPECT_EQ(traffic_of(make_problem(Pass::bwd, "causal")).tiles,
            (TileCounts{.empty = kSlices * 6, .partial = kSlices * 4, .full = kSlices * 6}));
}

TEST(V2, WorkspaceIsLinearInTheRowsAndIndependentOfTheKeys) {
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

TEST(V2Schedule, EveryTileIsOneWorkItem) {
  for (const bool last_first : {false, true}) {
    const Grid grid = {.batch = 2, .heads = 3, .blocks = 5, .last_block_first = last_first};
    ASSERT_EQ(work_items(grid), 30);
    for (i64 index = 0; index < 30; ++index) {
      const WorkItem item = work_item(grid, index);
      const i64 place = last_first ? 4 - item.block : item.block;
      EXPECT_EQ((item.batch * 3 + item.head) * 5 + place, index);
    }
  }
}

}  // namespace
}  // namespace attnlab::v2
