// Tests v1 on a GPU as far as no GPU is needed: what it refuses and what it chooses, its memory and
// traffic, its units.
#include "kernels/v1/cuda.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/test_kernel.h"
#include "kernels/v1/cuda_tiles.h"
#include "kernels/v1/cuda_units.h"

namespace attnlab::v1 {
namespace {

constexpr i64 kBatch = 2, kHeads = 4, kHeadsKv = 2;
constexpr i64 kSlices = kBatch * kHeads;

Problem make_problem(Pass pass, i64 head_dim, i64 seqlen_q = 300, i64 seqlen_k = 300) {
  return {.pass = pass,
          .dtype = Dtype::f16,
          .batch = kBatch,
          .num_heads_q = kHeads,
          .num_heads_kv = kHeadsKv,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim = head_dim};
}

using cuda::hopper;

class V1Cuda : public testing::Test, public cuda::TestedKernel<kCuda> {
 protected:
  static Config with_blocks(i64 block_m, i64 block_n) {
    return config_of({{"block_m", block_m}, {"block_n", block_n}});
  }
};

class V1CudaTraffic : public V1Cuda {};

TEST_F(V1Cuda, RunsEveryHeadDimOfWholeChunksInEveryPass) { expect_all_head_dims(); }

TEST_F(V1Cuda, RefusesWithAReason) { expect_mma_sync_refusals(); }

TEST_F(V1Cuda, SaysWhyATileDoesNotFit) {
  const Problem forward = make_problem(Pass::fwd, 64), backward = make_problem(Pass::bwd, 64);
  EXPECT_EQ(reason(forward, with_blocks(16, 16)), "");
  EXPECT_EQ(reason(forward, with_blocks(48, 240)), "");
  expect_reason(forward, with_blocks(40, 32), "block_m = 40 and block_n = 32 must be multiples");
  expect_reason(forward, with_blocks(32, 24), "multiples of 16");
  expect_reason(make_problem(Pass::fwd, 256), with_blocks(128, 256), "shared memory");
  EXPECT_EQ(reason(backward, with_blocks(64, 32)), "");
  expect_reason(backward, with_blocks(64, 120), "multiples of 16");
  expect_reason(backward, with_blocks(32, 32), "8 warps cannot divide a tile of 32x32");  // scores
  expect_reason(backward, with_blocks(128, 16), "8 warps cannot divide");                 // dK, dV
  expect_reason(backward, with_blocks(16, 128), "8 warps cannot divide");                 // dQ
  expect_reason(backward, with_blocks(256, 128), "shared memory");
  expect_reason(backward, with_blocks(64, 256), "registers a thread");
  // Both passes have to fit.
  expect_reason(make_problem(Pass::fwdbwd, 64), with_blocks(16, 16), "8 warps cannot divide");
}

// The tile is min(ceil(M / 4d), d) rows and ceil(M / 4d) keys, in whole 16s from 16 to 256.
TEST_F(V1Cuda, SramSetsTheTileAsInThePaper) {
  struct Case {
    i64 sram, head_dim, block_m, block_n;
  };
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    for (const auto& [sram, head_dim, block_m, block_n] : {
             Case{8192, 64, 32, 32},       // 32
             Case{8193, 64, 32, 32},       // 33
             Case{12033, 64, 48, 48},      // 47.004, rounded up
             Case{24576, 64, 64, 96},      // no more than head_dim rows
             Case{24576, 40, 32, 144},     // 153.6
             Case{1, 64, 16, 16},          // 1
             Case{1 << 20, 256, 256, 256}  // 1024
         }) {
      const Config config = config_of({{"sram", sram}});
      const Config filled = kCuda.resolved(make_problem(pass, head_dim), config, hopper());
      EXPECT_EQ(filled.get("block_m"), block_m) << sram << " " << head_dim;
      EXPECT_EQ(filled.get("block_n"), block_n) << sram << " " << head_dim;
    }
  }
}

TEST_F(V1Cuda, BlocksThatAreAskedForWinOverSram) {
  const auto tile = [](const Config& config) {
    const Config filled = kCuda.resolved(make_problem(Pass::fwd, 64), config, hopper());
    return std::pair{filled.get("block_m"), filled.get("block_n")};
  };
  EXPECT_EQ(tile(config_of({{"sram", 8192}, {"block_m", 64}})), std::pair(64L, 32L));
  EXPECT_EQ(tile(config_of({{"sram", 8192}, {"block_n", 128}})), std::pair(32L, 128L));
  EXPECT_EQ(tile(config_of({{"sram", 8192}, {"block_m", 16}, {"block_n", 96}})),
            std::pair(16L, 96L));
}

std::vector<std::string> unit_texts(const Problem& problem, const Config& config) {
  std::vector<std::string> texts;
  for (const KernelUnit& unit : kCuda.units(problem, config, hopper())) {
    texts.push_back(unit.source);
  }
  return texts;
}

// Asking for the chosen values gives the same choice; a backward's forward has its own tile.
TEST_F(V1Cuda, TheOpenConfigIsFilledIn) {
  const Config open = default_config(kCuda);
  for (const Config& asked : {open, config_of({{"sram", 16384}}), config_of({{"block_m", 64}})}) {
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      for (const i64 head_dim : {24, 64, 80, 128, 160, 256}) {
        const Problem problem = make_problem(pass, head_dim);
        const Config filled = kCuda.resolved(problem, asked, hopper());
        EXPECT_GT(filled.get("block_m") * filled.get("block_n"), 0);
        EXPECT_EQ(kCuda.resolved(problem, filled, hopper()), filled);
        EXPECT_EQ(unit_texts(problem, filled), unit_texts(problem, asked)) << problem.id();
        EXPECT_EQ(kCuda.forward_config(filled), open);
      }
    }
    // A config of two passes stays open, because each pass has a tile of its own.
    EXPECT_EQ(kCuda.resolved(make_problem(Pass::fwdbwd, 64), asked, hopper()), asked);
  }
}

// Chips with less shared memory get smaller tiles.
TEST_F(V1Cuda, OtherChipsGetTilesThatFitThem) {
  const auto tile = [](Pass pass, i64 head_dim, const char* arch) {
    const Config filled =
        kCuda.resolved(make_problem(pass, head_dim), default_config(kCuda), device_of_arch(arch));
    return std::to_string(filled.get("block_m")) + "x" + std::to_string(filled.get("block_n"));
  };
  EXPECT_EQ(tile(Pass::bwd, 128, "sm_90a"), "64x128");
  EXPECT_EQ(tile(Pass::bwd, 128, "sm_80"), "32x128");
  EXPECT_EQ(tile(Pass::fwd, 192, "sm_90a"), "16x192");
  EXPECT_EQ(tile(Pass::fwd, 192, "sm_80"), "16x128");
  EXPECT_EQ(tile(Pass::fwd, 256, "sm_90a"), "16x128");
  EXPECT_EQ(tile(Pass::fwd, 256, "sm_80"), "16x64");  // of 128 keys, for one team
}

// The backward has two teams where warps can have 32 keys each, with all their rows.
TEST_F(V1Cuda, TheBackwardHasTwoTeamsWhereTheyFit) {
  const auto teams = [](i64 head_dim, i64 block_m, i64 block_n, const char* arch = "sm_90a") {
    return backward_config_of(make_problem(Pass::bwd, head_dim), with_blocks(block_m, block_n),
                              device_of_arch(arch))
        .teams;
  };
  EXPECT_EQ(teams(64, 64, 128), 2);
  EXPECT_EQ(teams(32, 32, 128), 2);
  EXPECT_EQ(teams(64, 96, 128), 2);
  EXPECT_EQ(teams(64, 96, 128, "sm_80"), 1);  // memory
  EXPECT_EQ(teams(64, 128, 128), 1);
  EXPECT_EQ(teams(96, 64, 128), 1);  // registers
  EXPECT_EQ(teams(64, 64, 64), 1);   // 16 keys a warp
  EXPECT_EQ(teams(64, 48, 128), 1);  // one and a half slices of 32 rows
  EXPECT_EQ(teams(64, 32, 128), 1);  // too little to send dK by
}

u64 floats(i64 elements) { return round_up<u64>(static_cast<u64>(elements) * 4, 256); }

// The workspace has first and last visits of all tiles of rows; m and l, where no backward follows
// that they are saved for; sums of O or dQ, for whole tiles.
TEST_F(V1Cuda, WorkspaceIsLinearInTheRows) {
  const auto bytes = [](Pass pass, i64 seqlen_q, i64 seqlen_k) {
    const Problem problem = make_problem(pass, 24, seqlen_q, seqlen_k);
    return kCuda.workspace_bytes(problem, with_blocks(64, 128), hopper());
  };
  for (const i64 seqlen_q : {1024, 2048, 4096}) {
    const u64 visits = round_up<u64>(static_cast<u64>(kBatch * seqlen_q / 64) * 8, 256);
    const u64 sums = floats(kSlices * seqlen_q * 32);  // of tiles, which have 32 columns
    for (const i64 seqlen_k : {129, 1024, 100000}) {
      EXPECT_EQ(bytes(Pass::fwd, seqlen_q, seqlen_k),
                visits + sums + 2 * floats(kSlices * seqlen_q));
      EXPECT_EQ(bytes(Pass::bwd, seqlen_q, seqlen_k), visits + sums);
      EXPECT_EQ(bytes(Pass::fwdbwd, seqlen_q, seqlen_k), visits + sums);
    }
  }
  // A last tile that is cut off has as much room as the others.
  EXPECT_EQ(bytes(Pass::bwd, 65, 129), bytes(Pass::bwd, 128, 129));
}

TEST_F(V1Cuda, OneTileOfKeysNeedsNoSumsAndNoStatistics) {
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    for (const i64 seqlen_k : {1, 100, 128}) {
      const Problem problem = make_problem(pass, 64, 2048, seqlen_k);
      EXPECT_EQ(kCuda.workspace_bytes(problem, with_blocks(64, 128), hopper()), 2 * 32 * 8U);
    }
  }
  // Each pass counts by its own tile: 256 keys are one of the forward's and two of the backward's.
  const Problem problem = make_problem(Pass::fwdbwd, 64, 2048, 256);
  EXPECT_EQ(kCuda.workspace_bytes(problem, default_config(kCuda), hopper()),
            2 * 64 * 8 + floats(kSlices * 2048 * 64));
}

TEST_F(V1Cuda, APatternAddsTheClassesOfItsTiles) {
  Problem problem = make_problem(Pass::fwd, 64);
  const Config config = with_blocks(32, 16);
  const u64 without = kCuda.workspace_bytes(problem, config, hopper());
  EXPECT_EQ(kCuda.units(problem, config, hopper()).size(), 2U);
  problem.mask = parse_mask("blocks:butterfly:64x64");
  EXPECT_EQ(kCuda.workspace_bytes(problem, config, hopper()),
            without + round_up<u64>(u64{2} * 10 * 19, 256));
  EXPECT_EQ(kCuda.units(problem, config, hopper()).size(), 3U);
}

// The forward saves m and l, which give a backward P, and per slice whether lse holds them.
TEST_F(V1Cuda, SavesTheStatisticsForABackward) {
  const Config open = default_config(kCuda);
  EXPECT_EQ(kCuda.saved_bytes(make_problem(Pass::fwd, 64), open), 0U);
  for (const Pass pass : {Pass::bwd, Pass::fwdbwd}) {
    EXPECT_EQ(kCuda.saved_bytes(make_problem(pass, 64), open), 2 * floats(kSlices * 300) + 256);
  }
}

// Sizes holds the sizes of one head, over the batch.
struct Sizes {
  i64 rows = 0;
  i64 keys = 0;
  i64 visited = 0;  // rows that some tile of keys visits
  i64 visits = 0;   // such rows, once for each tile that does
};

// Counts how both passes move a sum of theirs, O or dQ: fp32 between visits, with all columns of a
// tile; 2 bytes at the last one. Rows that nobody visits are written, too.
OperandTraffic sums(const Problem& problem, const Sizes& head) {
  const i64 between =
      kHeads * (head.visits - head.visited) * round_up<i64>(problem.head_dim, 32) * 4;
  return {.read_bytes = between,
          .write_bytes = between + kHeads * head.rows * problem.head_dim * 2};
}

// Counts Algorithm 1: K and V once; Q at each visit; O, l and m from one visit to the next; lse.
// Before a backward l and m go out at the last visit, too, and those of rows without any visit.
Traffic forward_traffic(const Problem& problem, const Sizes& head) {
  Traffic traffic;
  const i64 kv_bytes = kHeads * head.keys * problem.head_dim * 2;
  traffic[Operand::k] = traffic[Operand::v] = {.read_bytes = kv_bytes};
  traffic[Operand::q] = {.read_bytes = kHeads * head.visits * problem.head_dim * 2};
  traffic[Operand::o] = sums(problem, head);
  traffic[Operand::lse] = {.write_bytes = kHeads * head.rows * 4};
  const i64 between = head.visits - head.visited;
  const i64 saved = problem.pass == Pass::fwd ? 0 : head.rows;
  traffic[Operand::m] = traffic[Operand::l] = {.read_bytes = kHeads * between * 4,
                                               .write_bytes = kHeads * (between + saved) * 4};
  return traffic;
}

// Counts Algorithm 4: K and V once; Q, O, dO, l and m at each visit; dQ from one visit to the next;
// dK and dV once.
Traffic backward_traffic(const Problem& problem, const Sizes& head) {
  Traffic traffic;
  const i64 kv_bytes = kHeadsKv * head.keys * problem.head_dim * 2;
  traffic[Operand::k] = traffic[Operand::v] = {.read_bytes = kv_bytes};
  traffic[Operand::dk] = traffic[Operand::dv] = {.write_bytes = kv_bytes};
  for (const Operand operand : {Operand::q, Operand::o, Operand::dout}) {
    traffic[operand] = {.read_bytes = kHeads * head.visits * problem.head_dim * 2};
  }
  traffic[Operand::m] = traffic[Operand::l] = {.read_bytes = kHeads * head.visits * 4};
  traffic[Operand::dq] = sums(problem, head);
  return traffic;
}

void expect_traffic(const Problem& problem, const Config& config, const Traffic& want) {
  const Traffic traffic = kCuda.traffic(problem, config);
  for (std::size_t i = 0; i < kOperands; ++i) {
    const Operand operand = static_cast<Operand>(i);
    EXPECT_EQ(traffic[operand].read_bytes, want[operand].read_bytes)
        << problem.id() << " " << to_string(operand);
    EXPECT_EQ(traffic[operand].write_bytes, want[operand].write_bytes)
        << problem.id() << " " << to_string(operand);
  }
}

void expect_traffic_of_every_pass(Problem problem, const Config& config, const Sizes& head) {
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    problem.pass = pass;
    ASSERT_EQ(invalid(problem), "");
    ASSERT_EQ(V1Cuda::reason(problem, config), "");
    Traffic want;
    if (pass != Pass::bwd) want += forward_traffic(problem, head);
    if (pass != Pass::fwd) want += backward_traffic(problem, head);
    expect_traffic(problem, config, want);
  }
}

// Takes sizes that tiles of 64x64 divide, also with one tile of keys, where O, l, m and dQ do not
// come back; head dims that fill the tiles' columns, and less.
TEST_F(V1CudaTraffic, DenseIsTheClosedForm) {
  struct Case {
    i64 seqlen_q, seqlen_k;
  };
  for (const auto& [seqlen_q, seqlen_k] : {Case{256, 256}, Case{64, 320}, Case{192, 64}}) {
    const i64 key_tiles = seqlen_k / 64;
    const Sizes head = {.rows = kBatch * seqlen_q,
                        .keys = kBatch * seqlen_k,
                        .visited = kBatch * seqlen_q,
                        .visits = key_tiles * kBatch * seqlen_q};
    for (const i64 head_dim : {64, 24, 80}) {
      expect_traffic_of_every_pass(make_problem(Pass::fwd, head_dim, seqlen_q, seqlen_k),
                                   with_blocks(64, 64), head);
    }
  }
}

// With one tile of keys only inputs and outputs move; the test spells them out.
TEST_F(V1CudaTraffic, OneTileOfKeysMovesInputsAndOutputs) {
  const Problem problem = make_problem(Pass::fwd, 64, 192, 64);
  const i64 rows_bytes = kSlices * 192 * 64 * 2, keys_bytes = kSlices * 64 * 64 * 2;
  const Traffic traffic = kCuda.traffic(problem, with_blocks(64, 64));
  EXPECT_EQ(traffic.read_bytes(), rows_bytes + 2 * keys_bytes);
  EXPECT_EQ(traffic.write_bytes(), rows_bytes + kSlices * 192 * 4);
}

// Each pass gets its own choice for what is left open: 32x256 forward, 64x128 backward.
TEST_F(V1CudaTraffic, EachPassHasItsOwnTile) {
  const Problem problem = make_problem(Pass::fwdbwd, 64, 1024, 1024);
  const auto sizes = [](i64 key_tiles) {
    const i64 all = kBatch * 1024;
    return Sizes{.rows = all, .keys = all, .visited = all, .visits = key_tiles * all};
  };
  Traffic want = forward_traffic(problem, sizes(4));
  want += backward_traffic(problem, sizes(8));
  expect_traffic(problem, default_config(kCuda), want);
}

// Packs entries of 256 rows with 128 keys, and of 64 rows with none. The diagonal ends at the last
// row and key: of the first entry, rows 128 to 255 see something, those from 192 on also the second
// tile of keys.
TEST_F(V1CudaTraffic, RowsThatNobodySeesAreWrittenOnce) {
  Problem problem = make_problem(Pass::fwd, 64, 256, 128);
  problem.mask = parse_mask("causal");
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {256, 64}, .keys = {128, 0}};
  const Sizes head = {.rows = 256 + 64, .keys = 128, .visited = 128, .visits = 128 + 64};
  expect_traffic_of_every_pass(problem, with_blocks(64, 64), head);
}

TEST_F(V1Cuda, FewUnitsServeAllProblems) {
  EXPECT_LE(units_of_all_problems(Pass::fwd).size(), 24U);
  EXPECT_LE(units_of_all_problems(Pass::bwd).size(), 24U);
}

}  // namespace
}  // namespace attnlab::v1
