// Tests minimal on the CPU: closed forms of its traffic, and what it refuses.
#include "kernels/minimal/cpu.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/backend.h"
#include "kernels/minimal/schedule.h"

namespace attnlab::minimal {
namespace {

constexpr i64 kSeqlenQ = 70, kSeqlenK = 90, kHeadDim = 24, kSlices = 8;  // batch x heads

Problem make_problem(const char* mask) {
  return {.batch = 2,
          .num_heads_q = kSlices / 2,
          .num_heads_kv = 1,
          .seqlen_q = kSeqlenQ,
          .seqlen_k = kSeqlenK,
          .head_dim = kHeadDim,
          .mask = parse_mask(mask)};
}

Traffic traffic_of(const Problem& problem) { return kCpu.traffic(problem, default_config(kCpu)); }

OperandTraffic reads(i64 elements) { return {.read_bytes = 4 * elements}; }
OperandTraffic writes(i64 elements) { return {.write_bytes = 4 * elements}; }

TEST(MinimalTraffic, EveryBlockOfRowsReadsAllKeys) {
  constexpr i64 kBlocks = 3, kTiles = 3;  // of 70 rows and of 90 keys
  for (const char* mask : {"none", "causal"}) {
    const Traffic traffic = traffic_of(make_problem(mask));
    EXPECT_EQ(traffic[Operand::q], reads(kSlices * kSeqlenQ * kHeadDim));
    EXPECT_EQ(traffic[Operand::k], reads(kSlices * kBlocks * kSeqlenK * kHeadDim));
    EXPECT_EQ(traffic[Operand::v], reads(kSlices * kBlocks * kSeqlenK * kHeadDim));
    EXPECT_EQ(traffic[Operand::o], writes(kSlices * kSeqlenQ * kHeadDim));
    EXPECT_EQ(traffic[Operand::lse], writes(kSlices * kSeqlenQ));
    EXPECT_EQ(traffic.write_bytes(), 4 * kSlices * kSeqlenQ * (kHeadDim + 1));
    EXPECT_EQ(traffic.executed_flops, kSlices * kBlocks * kTiles * 4 * 32 * 32 * kHeadDim);
    EXPECT_EQ(traffic.tiles.empty, 0);  // none is skipped
    EXPECT_EQ(traffic.tiles.partial + traffic.tiles.full, kSlices * kBlocks * kTiles);
  }
}

TEST(MinimalTraffic, PackedEntriesCountTheirOwnRowsAndKeys) {
  Problem problem = make_problem("none");
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {70, 0}, .keys = {33, 90}};
  const Traffic traffic = traffic_of(problem);
  EXPECT_EQ(traffic[Operand::k], reads(4 * 3 * 33 * kHeadDim));
  EXPECT_EQ(traffic[Operand::o], writes(4 * 70 * kHeadDim));
}

TEST(Minimal, IsATeachingKernel) {
  const auto reason = [](Problem problem) {
    return kCpu.unsupported(problem, default_config(kCpu), cpu::cpu_device());
  };
  Problem problem = make_problem("causal");
  EXPECT_EQ(reason(problem), "");
  problem.dtype = Dtype::bf16;
  EXPECT_NE(reason(problem).find("teaching"), std::string::npos);
  problem.dtype = Dtype::f32;
  problem.pass = Pass::fwdbwd;
  EXPECT_NE(reason(problem).find("teaching"), std::string::npos);
}

TEST(Minimal, WorkspaceIsFiveTilesAWorker) {
  Problem problem = make_problem("none");
  problem.head_dim = 64;
  Device device = cpu::cpu_device();
  device.threads = 3;
  for (const i64 seqlen : {64, 1 << 20}) {
    problem.seqlen_q = problem.seqlen_k = seqlen;
    EXPECT_EQ(kCpu.workspace_bytes(problem, default_config(kCpu), device),
              round_up<u64>(3 * 4 * (5 * 32 * 64 + 32), 256));
  }
}

}  // namespace
}  // namespace attnlab::minimal
