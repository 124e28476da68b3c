// Shares the traffic tests of v2 and v3: 4 x 4 tiles a slice, and what both schedules promise.
#pragma once

#include <gtest/gtest.h>

#include "kernels/api/implementation.h"
#include "kernels/cpu/backend.h"

namespace attnlab::cpu::testing_support {

constexpr i64 kBlock = 16, kSeqlen = 64, kHeadDim = 24;
constexpr i64 kSlices = 8, kSlicesKv = 4;  // batch x heads
constexpr i64 kTensor = kSlices * kSeqlen * kHeadDim, kTensorKv = kSlicesKv * kSeqlen * kHeadDim;

inline Problem make_problem(Pass pass, const char* mask) {
  return {.pass = pass,
          .batch = 2,
          .num_heads_q = kSlices / 2,
          .num_heads_kv = kSlicesKv / 2,
          .seqlen_q = kSeqlen,
          .seqlen_k = kSeqlen,
          .head_dim = kHeadDim,
          .mask = parse_mask(mask)};
}

inline Traffic traffic_of(const Implementation& kernel, const Problem& problem) {
  Config config = default_config(kernel);
  config.set("block_m", kBlock);
  config.set("block_n", kBlock);
  return kernel.traffic(problem, config);
}

inline OperandTraffic reads(i64 elements) { return {.read_bytes = 4 * elements}; }
inline OperandTraffic writes(i64 elements) { return {.write_bytes = 4 * elements}; }

// Expects a full forward in which each K and V tile is loaded `visits` times; and under a causal
// mask 10 of the 16 tiles, 4 of them on the diagonal.
inline void expect_forward_traffic(const Implementation& kernel, i64 visits) {
  const Traffic full = traffic_of(kernel, make_problem(Pass::fwd, "none"));
  EXPECT_EQ(full[Operand::q], reads(kTensor));
  EXPECT_EQ(full[Operand::k], reads(visits * kTensor));
  EXPECT_EQ(full[Operand::v], reads(visits * kTensor));
  EXPECT_EQ(full[Operand::o], writes(kTensor));
  EXPECT_EQ(full[Operand::lse], writes(kSlices * kSeqlen));
  EXPECT_EQ(full.write_bytes(), 4 * (kTensor + kSlices * kSeqlen));
  EXPECT_EQ(full.tiles, (TileCounts{.full = kSlices * 16}));
  const Traffic causal = traffic_of(kernel, make_problem(Pass::fwd, "causal"));
  EXPECT_EQ(causal.tiles,
            (TileCounts{.empty = kSlices * 6, .partial = kSlices * 4, .full = kSlices * 6}));
  EXPECT_EQ(causal.executed_flops, kSlices * 10 * 4 * kBlock * kBlock * kHeadDim);
}

// Expects a full backward in which the row tensors are loaded `visits` times: K and V come once per
// K/V head, not per query head; the sums of dQ are set to 0, added to at each visit, and read once
// more for the last scale.
inline void expect_backward_traffic(const Implementation& kernel, i64 visits) {
  constexpr i64 kRows = kSlices * kSeqlen;
  const Traffic full = traffic_of(kernel, make_problem(Pass::bwd, "none"));
  EXPECT_EQ(full[Operand::q], reads(visits * kTensor));
  EXPECT_EQ(full[Operand::k], reads(kTensorKv));
  EXPECT_EQ(full[Operand::v], reads(kTensorKv));
  EXPECT_EQ(full[Operand::o], reads(kTensor));
  EXPECT_EQ(full[Operand::dout], reads((visits + 1) * kTensor));
  EXPECT_EQ(full[Operand::lse], reads(visits * kRows));
  EXPECT_EQ(full[Operand::delta],
            (OperandTraffic{.read_bytes = 4 * visits * kRows, .write_bytes = 4 * kRows}));
  EXPECT_EQ(full[Operand::dq], (OperandTraffic{.read_bytes = 4 * (visits + 1) * kTensor,
                                               .write_bytes = 4 * (visits + 2) * kTensor}));
  EXPECT_EQ(full[Operand::dk], writes(kTensorKv));
  EXPECT_EQ(full[Operand::dv], writes(kTensorKv));
  EXPECT_EQ(full.executed_flops, 10 * kSlices * kSeqlen * kSeqlen * kHeadDim);

  Traffic both = traffic_of(kernel, make_problem(Pass::fwd, "none"));
  both += full;
  EXPECT_EQ(traffic_of(kernel, make_problem(Pass::fwdbwd, "none")), both);
  EXPECT_EQ(traffic_of(kernel, make_problem(Pass::bwd, "causal")).tiles,
            (TileCounts{.empty = kSlices * 6, .partial = kSlices * 4, .full = kSlices * 6}));
}

// Nothing of the workspace grows with the keys, and with the rows only the sums of dQ and delta.
inline void expect_workspace_linear_in_rows(const Implementation& kernel) {
  const auto bytes = [&](Pass pass, i64 seqlen_q, i64 seqlen_k) {
    Problem problem = make_problem(pass, "none");
    problem.seqlen_q = seqlen_q;
    problem.seqlen_k = seqlen_k;
    return kernel.workspace_bytes(problem, default_config(kernel), cpu_device());
  };
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    EXPECT_EQ(bytes(pass, 64, 64), bytes(pass, 64, 1 << 20));
  }
  EXPECT_EQ(bytes(Pass::fwd, 64, 64), bytes(Pass::fwd, 1 << 20, 64));
  EXPECT_EQ(bytes(Pass::bwd, 4096, 64) - bytes(Pass::bwd, 2048, 64),
            static_cast<u64>(kSlices * 2048 * (kHeadDim + 1) * 4));
}

}  // namespace attnlab::cpu::testing_support
