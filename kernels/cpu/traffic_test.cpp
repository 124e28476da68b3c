// The traffic model is the schedule itself: what a launch counted equals what count-only mode says,
// and both equal closed forms where there are some.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/api/registry.h"
#include "kernels/cpu/backend.h"

namespace attnlab {
namespace {

struct Memory {
  explicit Memory(const Problem& problem)
      : q(static_cast<std::size_t>(problem.elements_q()), 0.5f),
        k(static_cast<std::size_t>(problem.elements_k()), 0.25f),
        o(q.size()),
        lse(static_cast<std::size_t>(problem.elements_lse())),
        pattern(make_block_pattern(problem)) {}
  std::vector<float> q, k, o, lse;
  std::vector<std::uint8_t> pattern;
};

Traffic executed(const Implementation& kernel, const Problem& problem, const Config& config) {
  Device device = cpu::cpu_device();
  device.threads = 3;
  Memory memory(problem);
  std::vector<std::byte> workspace(kernel.workspace_bytes(problem, config, device));
  Tensors tensors;
  tensors.q = memory.q.data();
  tensors.k = memory.k.data();
  tensors.v = memory.k.data();
  tensors.o = memory.o.data();
  tensors.lse = memory.lse.data();
  tensors.block_pattern = memory.pattern.data();
  tensors.workspace = workspace.data();
  tensors.workspace_bytes = workspace.size();
  PreparedKernel* prepared = kernel.prepare(problem, config, device);
  kernel.launch(prepared, tensors, nullptr);
  kernel.launch(prepared, tensors, nullptr);  // counts belong to one launch
  const Traffic traffic = static_cast<cpu::Prepared*>(prepared)->executed();
  kernel.release(prepared);
  return traffic;
}

Problem make_problem(i64 seqlen_q, i64 seqlen_k, const char* mask) {
  Problem problem;
  problem.batch = 2;
  problem.num_heads_q = 4;
  problem.num_heads_kv = 2;
  problem.seqlen_q = seqlen_q;
  problem.seqlen_k = seqlen_k;
  problem.head_dim = 24;
  problem.mask = parse_mask(mask);
  if (problem.mask.padding) {
    problem.lengths = {.kind = LengthsKind::padding, .keys = {seqlen_k, seqlen_k / 3}};
  }
  return problem;
}

TEST(Traffic, CountOnlyEqualsExecution) {
  for (const Implementation* kernel : builtin_registry().all()) {
    for (const char* mask : {"none", "causal", "window:20:7", "padding", "causal+padding",
                             "blocks:butterfly:16x8", "causal+blocks:butterfly:8x24"}) {
      for (const auto& [seqlen_q, seqlen_k] : {std::pair{100L, 100L}, {33L, 90L}, {90L, 33L}}) {
        if (seqlen_q != seqlen_k && std::string(mask).find("butterfly") != std::string::npos) {
          continue;
        }
        const Problem problem = make_problem(seqlen_q, seqlen_k, mask);
        Config config = default_config(*kernel);
        if (config.contains("block_m")) {
          config.set("block_m", 16);
          config.set("block_n", 24);
        }
        const Traffic model = kernel->traffic(problem, config);
        EXPECT_EQ(model, executed(*kernel, problem, config)) << kernel->name << " " << problem.id();
        EXPECT_GT(model.read_bytes(), 0);
      }
    }
  }
}

TEST(Traffic, NaiveMovesEachMatrixOnceAPass) {
  const Implementation& naive = *builtin_registry().find("naive", Backend::cpu);
  const i64 n = 64, m = 48, slices = 8, d = 24;
  for (const char* mask : {"none", "causal"}) {
    const Traffic traffic = naive.traffic(make_problem(n, m, mask), default_config(naive));
    const i64 masking = std::string(mask) == "none" ? 0 : 1;
    EXPECT_EQ(traffic[Operand::q].read_bytes, slices * n * d * 4);
    EXPECT_EQ(traffic[Operand::k].read_bytes, slices * m * d * 4);
    EXPECT_EQ(traffic[Operand::v].read_bytes, slices * m * d * 4);
    EXPECT_EQ(traffic[Operand::o].write_bytes, slices * n * d * 4);
    EXPECT_EQ(traffic[Operand::lse].write_bytes, slices * n * 4);
    EXPECT_EQ(traffic[Operand::s].write_bytes, (1 + masking) * slices * n * m * 4);
    EXPECT_EQ(traffic[Operand::s].read_bytes, (1 + masking) * slices * n * m * 4);
    EXPECT_EQ(traffic[Operand::p].write_bytes, slices * n * m * 4);
    EXPECT_EQ(traffic[Operand::p].read_bytes, slices * n * m * 4);
    EXPECT_EQ(traffic.executed_flops, slices * 4 * n * m * d);
  }
}

TEST(Traffic, V2ReadsKeysOncePerQueryTile) {
  const Implementation& v2 = *builtin_registry().find("v2", Backend::cpu);
  Config config = default_config(v2);
  config.set("block_m", 16);
  config.set("block_n", 16);
  const i64 n = 64, slices = 8, d = 24;
  const Traffic full = v2.traffic(make_problem(n, n, "none"), config);
  EXPECT_EQ(full[Operand::q].read_bytes, slices * n * d * 4);
  EXPECT_EQ(full[Operand::k].read_bytes, slices * (n / 16) * n * d * 4);
  EXPECT_EQ(full[Operand::v].read_bytes, slices * (n / 16) * n * d * 4);
  EXPECT_EQ(full[Operand::o].write_bytes, slices * n * d * 4);
  EXPECT_EQ(full[Operand::lse].write_bytes, slices * n * 4);
  EXPECT_EQ(full.write_bytes(), slices * n * (d + 1) * 4);
  EXPECT_EQ(full.tiles, (TileCounts{.full = slices * 16}));

  // A 4 x 4 causal grid computes 10 of its 16 tiles, 4 of them on the diagonal.
  const Traffic causal = v2.traffic(make_problem(n, n, "causal"), config);
  EXPECT_EQ(causal.tiles,
            (TileCounts{.empty = slices * 6, .partial = slices * 4, .full = slices * 6}));
  EXPECT_EQ(causal[Operand::k].read_bytes, slices * 10 * 16 * d * 4);
  EXPECT_EQ(causal.executed_flops, slices * 10 * 4 * 16 * 16 * d);
}

TEST(Traffic, V2WorkspaceDoesNotGrowWithTheKeys) {
  const Implementation& v2 = *builtin_registry().find("v2", Backend::cpu);
  const Config config = default_config(v2);
  const Device device = cpu::cpu_device();
  EXPECT_EQ(v2.workspace_bytes(make_problem(64, 64, "none"), config, device),
            v2.workspace_bytes(make_problem(64, 1 << 20, "none"), config, device));
}

}  // namespace
}  // namespace attnlab
