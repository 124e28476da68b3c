// Tests v1 on the CPU: the paper's block sizes and closed forms of its traffic, counted and
// executed; the order of work items never shows in the results; memory grows with seqlen.
#include "kernels/v1/cpu.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/shared/convert.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {
namespace {

constexpr i64 kBatch = 2, kHeads = 4, kHeadsKv = 2, kHeadDim = 24;
constexpr i64 kSlices = kBatch * kHeads, kSlicesKv = kBatch * kHeadsKv;
constexpr i64 kSharing = kHeads / kHeadsKv;

Problem make_problem(Pass pass, i64 seqlen_q, i64 seqlen_k, const char* mask = "none") {
  return {.pass = pass,
          .batch = kBatch,
          .num_heads_q = kHeads,
          .num_heads_kv = kHeadsKv,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim = kHeadDim,
          .mask = parse_mask(mask)};
}

Config with_blocks(const Tiling& tiling) {
  Config config = default_config(kCpu);
  config.set("block_m", tiling.block_m);
  config.set("block_n", tiling.block_n);
  return config;
}

OperandTraffic elements(i64 read, i64 written, Dtype dtype = Dtype::f32) {
  return {.read_bytes = read * size_bytes(dtype), .write_bytes = written * size_bytes(dtype)};
}

Elements in_total(const Traffic& traffic) {
  return {.read = traffic.read_bytes() / 4, .written = traffic.write_bytes() / 4};
}

TEST(V1Schedule, BlockSizesAreThePapers) {
  EXPECT_EQ(make_tiling(kDefaultSram, 64), (Tiling{.block_m = 64, .block_n = 192}));
  EXPECT_EQ(make_tiling(kDefaultSram, 128), (Tiling{.block_m = 96, .block_n = 96}));
  EXPECT_EQ(make_tiling(kDefaultSram, 256), (Tiling{.block_m = 48, .block_n = 48}));
  EXPECT_EQ(make_tiling(1000, 40), (Tiling{.block_m = 7, .block_n = 7}));    // 6.25, rounded up
  EXPECT_EQ(make_tiling(1000, 16), (Tiling{.block_m = 16, .block_n = 16}));  // 15.625
  EXPECT_EQ(make_tiling(1000, 1), (Tiling{.block_m = 1, .block_n = 250}));
  EXPECT_EQ(make_tiling(64, 256), (Tiling{.block_m = 1, .block_n = 1}));
  EXPECT_EQ(make_tiling(1000, 40, {.block_m = 32}), (Tiling{.block_m = 32, .block_n = 7}));
  EXPECT_EQ(make_tiling(1000, 40, {.block_n = 48}), (Tiling{.block_m = 7, .block_n = 48}));
}

TEST(V1Schedule, SramSetsTheTilesOfAKernel) {
  Config config = default_config(kCpu);
  config.set("sram", 1000);
  const Problem problem = make_problem(Pass::fwdbwd, 100, 90);
  EXPECT_EQ(kCpu.traffic(problem, config),
            kCpu.traffic(problem, with_blocks(make_tiling(1000, kHeadDim))));
  EXPECT_NE(kCpu.traffic(problem, config), kCpu.traffic(problem, default_config(kCpu)));
}

// Covers sequences that the tiles divide and do not divide, and seqlen_q != seqlen_k.
constexpr std::pair<i64, i64> kSeqlens[] = {{96, 96}, {100, 100}, {96, 48}, {37, 150}, {1, 1}};
constexpr Tiling kTiling = {.block_m = 16, .block_n = 24};

// The count is the paper's: reads 2Nd + Tc (2Nd + 2N), writes Tc (Nd + 2N), plus what starts O, l
// and m and ends lse.
TEST(V1Traffic, ForwardIsThePapersClosedForm) {
  constexpr i64 kN = 96, kTc = 4;
  const i64 d = kHeadDim;
  const Elements paper = forward_elements(kN, kN, d, row_visits(kTiling, kN, kN));
  EXPECT_EQ(paper.read, 2 * kN * d + kTc * (2 * kN * d + 2 * kN));
  EXPECT_EQ(paper.written, kTc * (kN * d + 2 * kN) + (kN * d + 2 * kN) + kN);

  for (const auto& [n, m] : kSeqlens) {
    const Traffic traffic = kCpu.traffic(make_problem(Pass::fwd, n, m), with_blocks(kTiling));
    const i64 visits = row_visits(kTiling, n, m);
    EXPECT_EQ(traffic[Operand::k], elements(kSlices * m * d, 0));
    EXPECT_EQ(traffic[Operand::v], elements(kSlices * m * d, 0));
    EXPECT_EQ(traffic[Operand::q], elements(kSlices * visits * d, 0));
    EXPECT_EQ(traffic[Operand::o], elements(kSlices * visits * d, kSlices * (visits + n) * d));
    EXPECT_EQ(traffic[Operand::l], elements(kSlices * visits, kSlices * (visits + n)));
    EXPECT_EQ(traffic[Operand::m], elements(kSlices * visits, kSlices * (visits + n)));
    EXPECT_EQ(traffic[Operand::lse], elements(0, kSlices * n));
    const Elements head = forward_elements(n, m, d, visits);
    EXPECT_EQ(in_total(traffic), (Elements{kSlices * head.read, kSlices * head.written}));
  }
}

TEST(V1Traffic, BackwardIsAlgorithm4sClosedForm) {
  constexpr i64 kN = 96, kTc = 4;
  const i64 d = kHeadDim;
  const Elements paper = backward_elements(kN, kN, d, row_visits(kTiling, kN, kN), 1);
  EXPECT_EQ(paper.read, 2 * kN * d + kTc * (4 * kN * d + 2 * kN));
  EXPECT_EQ(paper.written, 2 * kN * d + kTc * kN * d + kN * d);

  for (const auto& [n, m] : kSeqlens) {
    const Traffic traffic = kCpu.traffic(make_problem(Pass::bwd, n, m), with_blocks(kTiling));
    const i64 visits = row_visits(kTiling, n, m);
    for (const Operand operand : {Operand::q, Operand::o, Operand::dout}) {
      EXPECT_EQ(traffic[operand], elements(kSlices * visits * d, 0)) << to_string(operand);
    }
    EXPECT_EQ(traffic[Operand::dq], elements(kSlices * visits * d, kSlices * (visits + n) * d));
    EXPECT_EQ(traffic[Operand::l], elements(kSlices * visits, 0));
    EXPECT_EQ(traffic[Operand::m], elements(kSlices * visits, 0));
    EXPECT_EQ(traffic[Operand::k], elements(kSlicesKv * m * d, 0));
    EXPECT_EQ(traffic[Operand::v], elements(kSlicesKv * m * d, 0));
    EXPECT_EQ(traffic[Operand::dk], elements(0, kSlicesKv * m * d));
    EXPECT_EQ(traffic[Operand::dv], elements(0, kSlicesKv * m * d));
    const Elements group = backward_elements(n, m, d, visits, kSharing);
    EXPECT_EQ(in_total(traffic), (Elements{kSlicesKv * group.read, kSlicesKv * group.written}));
  }
}

// Checks Algorithm 5: what the inner loop moves shrinks with the fraction of blocks that are not
// empty, for tiles as large as the blocks and smaller.
TEST(V1Traffic, BlockSparseMovesTheFractionOfNonEmptyBlocks) {
  constexpr i64 kN = 256;
  for (const char* mask : {"blocks:butterfly:32x32", "blocks:local:1:32x32"}) {
    const Problem forward = make_problem(Pass::fwd, kN, kN, mask);
    const Problem backward = make_problem(Pass::bwd, kN, kN, mask);
    i64 non_empty = 0, blocks = 0;
    for (const std::uint8_t visible : make_block_pattern(forward)) {
      non_empty += visible;
      ++blocks;
    }
    ASSERT_LT(2 * non_empty, blocks + 1);
    for (const Tiling& tiling : {Tiling{32, 32}, Tiling{16, 8}}) {
      const i64 dense = row_visits(tiling, kN, kN);
      ASSERT_EQ(dense * non_empty % blocks, 0);
      const i64 visits = dense * non_empty / blocks;
      const Traffic traffic = kCpu.traffic(forward, with_blocks(tiling));
      const Elements head = forward_elements(kN, kN, kHeadDim, visits);
      EXPECT_EQ(in_total(traffic), (Elements{kSlices * head.read, kSlices * head.written}));
      EXPECT_EQ(traffic.tiles.full * blocks,
                (traffic.tiles.full + traffic.tiles.empty) * non_empty);
      const Elements group = backward_elements(kN, kN, kHeadDim, visits, kSharing);
      EXPECT_EQ(in_total(kCpu.traffic(backward, with_blocks(tiling))),
                (Elements{kSlicesKv * group.read, kSlicesKv * group.written}));
    }
  }
}

// In 16 bits O and dQ are summed in fp32; their last value goes to the output, rounded, instead.
TEST(V1Traffic, SumsOf16BitTypesAreFp32UntilTheirLastStep) {
  constexpr i64 kN = 100, kM = 90;
  const i64 d = kHeadDim;
  Problem problem = make_problem(Pass::fwdbwd, kN, kM);
  problem.dtype = Dtype::bf16;
  const Traffic traffic = kCpu.traffic(problem, with_blocks(kTiling));
  const i64 visits = kSlices * row_visits(kTiling, kN, kM) * d, rows = kSlices * kN * d;
  const OperandTraffic sum = elements(visits, visits);  // the first of kTc + 1 stores starts it
  const OperandTraffic rounded = elements(0, rows, Dtype::bf16);
  EXPECT_EQ(traffic[Operand::dq].read_bytes, sum.read_bytes);
  EXPECT_EQ(traffic[Operand::dq].write_bytes, sum.write_bytes + rounded.write_bytes);
  EXPECT_EQ(traffic[Operand::o].read_bytes,
            sum.read_bytes + elements(visits, 0, Dtype::bf16).read_bytes);
  EXPECT_EQ(traffic[Operand::o].write_bytes, sum.write_bytes + rounded.write_bytes);
}

// V1Execution is one run of v1 on random tensors; Pass::bwd runs after the forward that it needs.
class V1Execution {
 public:
  V1Execution(const Problem& problem, const Config& config, int threads)
      : problem_(problem), config_(config) {
    device_.threads = threads;
    for (auto* input : {&q_, &dout_}) *input = random_tensor(problem.elements_q());
    for (auto* input : {&k_, &v_}) *input = random_tensor(problem.elements_k());
    for (auto* output : {&o_, &dq_}) output->resize(q_.size());
    for (auto* output : {&dk_, &dv_}) output->resize(k_.size());
    lse_.resize(static_cast<std::size_t>(problem.elements_lse()));
    saved_.resize(2 * (lse_.size() + 64));
    if (problem.pass == Pass::bwd) launch(Pass::fwd);
    traffic_ = launch(problem.pass);
  }

  const Traffic& traffic() const { return traffic_; }

  // Compares all outputs byte by byte.
  bool same_results(const V1Execution& other) const {
    return o_ == other.o_ && dq_ == other.dq_ && dk_ == other.dk_ && dv_ == other.dv_ &&
           std::memcmp(lse_.data(), other.lse_.data(), lse_.size() * sizeof(float)) == 0;
  }

 private:
  using Bytes = std::vector<std::byte>;

  Bytes random_tensor(i64 count) {
    Bytes bytes(static_cast<std::size_t>(count * size_bytes(problem_.dtype)));
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const float value = normal(generator_);
      const u16 half = problem_.dtype == Dtype::f16 ? f16_from_f32(value) : bf16_from_f32(value);
      if (problem_.dtype == Dtype::f32) {
        std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
      } else {
        std::memcpy(bytes.data() + i * sizeof half, &half, sizeof half);
      }
    }
    return bytes;
  }

  Traffic launch(Pass pass) {
    Problem problem = problem_;
    problem.pass = pass;
    std::vector<float> workspace(kCpu.workspace_bytes(problem, config_, device_) / sizeof(float),
                                 std::numeric_limits<float>::quiet_NaN());
    std::vector<std::uint8_t> pattern = make_block_pattern(problem);
    const Tensors tensors = {.q = q_.data(),
                             .k = k_.data(),
                             .v = v_.data(),
                             .o = o_.data(),
                             .lse = lse_.data(),
                             .dout = dout_.data(),
                             .dq = dq_.data(),
                             .dk = dk_.data(),
                             .dv = dv_.data(),
                             .saved = problem_.pass == Pass::fwd ? nullptr : saved_.data(),
                             .block_pattern = pattern.data(),
                             .workspace = workspace.data(),
                             .workspace_bytes = workspace.size() * sizeof(float)};
    PreparedKernel* prepared = kCpu.prepare(problem, config_, device_);
    kCpu.launch(prepared, tensors, nullptr);
    const Traffic traffic = static_cast<cpu::Prepared*>(prepared)->executed();
    kCpu.release(prepared);
    return traffic;
  }

  Problem problem_;
  Config config_;
  Device device_ = cpu::cpu_device();
  std::mt19937 generator_{7};
  Bytes q_, k_, v_, dout_, o_, dq_, dk_, dv_;
  std::vector<float> lse_, saved_;
  Traffic traffic_;
};

// Runs block sizes from `sram`, every pass and type, with and without dropout: what is counted is
// executed, whoever executes it, and the results are the same bits.
TEST(V1Execution, EqualsTheCountAndDoesNotDependOnThreads) {
  Config config = default_config(kCpu);
  config.set("sram", 2000);
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
      for (const char* mask : {"none", "causal", "window:20:7", "causal+blocks:local:1:16x24"}) {
        Problem problem = make_problem(pass, 100, 100, mask);
        problem.dtype = dtype;
        problem.dropout = pass == Pass::fwdbwd ? 0.2 : 0.0;
        const V1Execution one(problem, config, 1), three(problem, config, 3);
        const Traffic model = kCpu.traffic(problem, config);
        EXPECT_EQ(one.traffic(), model) << problem.id();
        EXPECT_EQ(three.traffic(), model) << problem.id();
        EXPECT_TRUE(one.same_results(three)) << problem.id();
      }
    }
  }
}

// Counts what v1 needs beyond inputs and outputs: workspace and saved state.
TEST(V1Memory, GrowsLinearlyWithTheQueriesAndNotWithTheKeys) {
  const Config config = default_config(kCpu);
  const Device device = cpu::cpu_device();
  for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
    for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
      const auto bytes = [&](i64 seqlen_q, i64 seqlen_k) {
        Problem problem = make_problem(pass, seqlen_q, seqlen_k);
        problem.dtype = dtype;
        return kCpu.workspace_bytes(problem, config, device) + kCpu.saved_bytes(problem, config);
      };
      constexpr i64 kN = 1024;
      const u64 row_floats = 2 + (dtype == Dtype::f32 ? 0 : kHeadDim);
      EXPECT_EQ(bytes(2 * kN, kN) - bytes(kN, kN), kSlices * kN * row_floats * sizeof(float));
      EXPECT_EQ(bytes(4 * kN, kN) - bytes(2 * kN, kN), 2 * (bytes(2 * kN, kN) - bytes(kN, kN)));
      EXPECT_EQ(bytes(kN, 1 << 20), bytes(kN, kN));
    }
  }
}

}  // namespace
}  // namespace attnlab::v1
