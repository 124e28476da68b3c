// Tests v2 on a GPU as far as no GPU is needed: what it refuses and what it chooses, its memory and
// traffic, its units.
#include "kernels/v2/cuda.h"

#include <gtest/gtest.h>

#include "kernels/cuda/test_kernel.h"
#include "kernels/v2/cpu.h"
#include "kernels/v2/cuda_tiles.h"
#include "kernels/v2/cuda_units.h"

namespace attnlab::v2 {
namespace {

using cuda::hopper;

Problem make_problem(Pass pass, i64 head_dim) { return cuda::problem_of_300(pass, head_dim); }

class V2Cuda : public testing::Test, public cuda::TestedKernel<kCuda> {};

TEST_F(V2Cuda, RunsEveryHeadDimOfWholeChunksInEveryPass) { expect_all_head_dims(); }

TEST_F(V2Cuda, RefusesWithAReason) { expect_mma_sync_refusals(); }

TEST_F(V2Cuda, SaysWhyATileDoesNotFit) {
  const Problem forward = make_problem(Pass::fwd, 128), backward = make_problem(Pass::bwd, 128);
  const auto tile = [](i64 block_m, i64 block_n, i64 warps, i64 stages) {
    return config_of(
        {{"block_m", block_m}, {"block_n", block_n}, {"warps", warps}, {"stages", stages}});
  };
  EXPECT_EQ(reason(forward, tile(64, 32, 4, 3)), "");
  expect_reason(forward, tile(60, 32, 4, 2), "multiples of 16");
  expect_reason(forward, tile(64, 32, 3, 2), "2, 4, 8 or 16");
  expect_reason(forward, tile(64, 32, 8, 2), "multiple of 128");
  expect_reason(forward, tile(128, 128, 4, 1), "registers a thread");
  expect_reason(forward, tile(64, 256, 4, 4), "shared memory");
  expect_reason(forward, tile(256, 16, 16, 2), "registers, a multiprocessor has");
  EXPECT_EQ(reason(backward, tile(32, 64, 8, 2)), "");
  expect_reason(backward, tile(64, 128, 8, 3), "stages = 3");
  expect_reason(backward, tile(16, 16, 16, 2), "take fewer");
  expect_reason(backward, tile(256, 128, 8, 2), "shared memory");
  expect_reason(backward, tile(64, 128, 4, 2), "registers a thread");
}

// A warp that keeps P takes 32 rows at once: of a tile of 48 rows it would leave out the last 16.
// If warps share P and dS of such a tile, they need more registers than there are.
TEST_F(V2Cuda, ATileOfBrokenSlicesDoesNotKeepP) {
  const auto kernel = [](i64 block_m) {
    return backward_config_of(make_problem(Pass::bwd, 64),
                              config_of({{"block_m", block_m}, {"block_n", 128}, {"warps", 4}}),
                              hopper());
  };
  EXPECT_TRUE(kernel(16).p_in_registers);
  EXPECT_TRUE(kernel(96).p_in_registers);
  EXPECT_FALSE(kernel(48).p_in_registers);
  EXPECT_NE(unfit(kernel(48), hopper()), "");
}

// Asking for the chosen values gives the same choice; a backward's forward has its own tile.
TEST_F(V2Cuda, TheOpenConfigIsFilledIn) {
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    for (const i64 head_dim : {24, 64, 80, 128, 160, 256}) {
      for (const char* mask : {"none", "causal"}) {
        Problem problem = make_problem(pass, head_dim);
        problem.mask = parse_mask(mask);
        const Config open = default_config(kCuda);
        const Config filled = kCuda.resolved(problem, open, hopper());
        EXPECT_GT(filled.get("block_m") * filled.get("block_n"), 0);
        EXPECT_EQ(kCuda.resolved(problem, filled, hopper()), filled);
        EXPECT_EQ(reason(problem, filled), "");
        const auto units_of = [&](const Config& config) {
          return kCuda.units(problem, config, hopper()).front().source;
        };
        EXPECT_EQ(units_of(filled), units_of(open)) << problem.id();
        EXPECT_EQ(kCuda.forward_config(filled), open);
      }
    }
  }
}

// Chips with less shared memory get other tiles, down to what no tile fits.
TEST_F(V2Cuda, OtherChipsGetTilesThatFitThem) {
  for (const i64 head_dim : {64, 128, 256}) {
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      EXPECT_EQ(
          reason(make_problem(pass, head_dim), default_config(kCuda), device_of_arch("sm_80")), "");
    }
  }
  const auto block_m = [](const char* arch) {
    return kCuda.resolved(make_problem(Pass::bwd, 256), default_config(kCuda), device_of_arch(arch))
        .get("block_m");
  };
  EXPECT_EQ(block_m("sm_90a"), 64);
  EXPECT_EQ(block_m("sm_80"), 32);
}

TEST_F(V2Cuda, TrafficIsThatOfTheScheduleWithEachPassesTile) {
  for (const char* mask : {"none", "causal"}) {
    Problem problem = make_problem(Pass::fwdbwd, 64);
    problem.mask = parse_mask(mask);
    const Config open = default_config(kCuda);
    Traffic both;
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      Problem of_pass = problem;
      of_pass.pass = pass;
      const Config filled = kCuda.resolved(of_pass, open, hopper());
      Config schedule = default_config(kCpu);
      schedule.set("block_m", filled.get("block_m"));
      schedule.set("block_n", filled.get("block_n"));
      Traffic want = kCpu.traffic(of_pass, schedule);
      // prepare_rows reads lse once, as it writes delta.
      want[Operand::lse].read_bytes += want[Operand::delta].write_bytes;
      EXPECT_EQ(kCuda.traffic(of_pass, filled), want) << of_pass.id();
      both += want;
    }
    EXPECT_EQ(kCuda.traffic(problem, open), both);
  }
}

// The workspace has delta, sums of dQ for whole tiles, flags for what lse does not hold,
// semaphores; it is linear in the rows, whatever the keys.
TEST_F(V2Cuda, WorkspaceIsLinearInTheRows) {
  Problem problem = make_problem(Pass::bwd, 64);
  const Config open = default_config(kCuda), ordered = config_of({{"deterministic", 1}});
  const auto bytes = [&](const Config& config) {
    return kCuda.workspace_bytes(problem, config, hopper());
  };
  problem.seqlen_q = 640;
  const u64 rows = u64{2} * 4 * 640;
  const u64 of_tiles = round_up<u64>(u64{2} * 4 * 10 * 4, 256);
  EXPECT_EQ(bytes(open), rows * 4 + rows * 64 * 4 + of_tiles);
  EXPECT_EQ(bytes(ordered), bytes(open) + of_tiles + 256);
  problem.seqlen_k *= 7;
  EXPECT_EQ(bytes(open), rows * 4 + rows * 64 * 4 + of_tiles);
  EXPECT_EQ(kCuda.saved_bytes(problem, open), rows * 8);
  problem.pass = Pass::fwd;
  EXPECT_EQ(bytes(open), 0U);
  EXPECT_EQ(kCuda.saved_bytes(problem, open), 0U);
}

TEST_F(V2Cuda, APatternAddsTheClassesOfItsTiles) {
  Problem problem = make_problem(Pass::fwd, 64);
  problem.mask = parse_mask("blocks:butterfly:64x64");
  const Config config = config_of({{"block_m", 128}, {"block_n", 64}});
  EXPECT_EQ(kCuda.workspace_bytes(problem, config, hopper()), round_up<u64>(u64{2} * 3 * 5, 256));
  EXPECT_EQ(kCuda.units(problem, config, hopper()).size(), 2U);
}

TEST_F(V2Cuda, FewUnitsServeAllProblems) {
  EXPECT_LE(units_of_all_problems(Pass::fwd).size(), 24U);
  EXPECT_LE(units_of_all_problems(Pass::bwd).size(), 24U);
}

}  // namespace
}  // namespace attnlab::v2
