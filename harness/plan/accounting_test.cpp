#include "harness/plan/accounting.h"

#include <gtest/gtest.h>

#include "harness/testing/fake_kernels.h"
#include "kernels/api/hash.h"

namespace attnlab {
namespace {

// Makes a problem with b 2, hq 4, hkv 2, sq 3, sk 5, d 8.
Problem small_problem() {
  return {
      .batch = 2, .num_heads_q = 4, .num_heads_kv = 2, .seqlen_q = 3, .seqlen_k = 5, .head_dim = 8};
}

TEST(Accounting, FlopsWithoutMask) {
  Problem problem = small_problem();
  EXPECT_EQ(useful_flops(problem), 4 * (2 * 4 * 15) * 8);
  EXPECT_EQ(paper_flops(problem), useful_flops(problem));
  problem.pass = Pass::bwd;
  EXPECT_EQ(useful_flops(problem), 10 * (2 * 4 * 15) * 8);
  EXPECT_EQ(paper_flops(problem), 10 * (2 * 4 * 15) * 8);
  problem.pass = Pass::fwdbwd;
  EXPECT_EQ(useful_flops(problem), 14 * (2 * 4 * 15) * 8);
  EXPECT_EQ(paper_flops(problem), 14 * (2 * 4 * 15) * 8);
}

TEST(Accounting, CausalCountsPairsWhereThePapersHalve) {
  Problem problem = small_problem();
  problem.mask = parse_mask("causal");  // rows see 3, 4, 5 keys
  EXPECT_EQ(useful_flops(problem), 4 * (2 * 4 * 12) * 8);
  EXPECT_EQ(paper_flops(problem), 2 * (2 * 4 * 15) * 8);
}

TEST(Accounting, PaddingLeavesOutKeysThatDoNotExist) {
  Problem problem = small_problem();
  problem.mask = parse_mask("padding");
  problem.lengths = {.kind = LengthsKind::padding, .keys = {5, 1}};
  EXPECT_EQ(useful_flops(problem), 4 * (4 * (15 + 3)) * 8);
  EXPECT_EQ(paper_flops(problem), 4 * (2 * 4 * 15) * 8);
  // q and o have 2*4*3*8 elements each, k and v (5+1)*2*8, lse 2*4*3.
  EXPECT_EQ(compulsory_bytes(problem), 4 * (2 * 192 + 2 * 96 + 24));
}

TEST(Accounting, PackedSumsOverEntries) {
  Problem problem = small_problem();
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {3, 1}, .keys = {5, 2}};
  EXPECT_EQ(useful_flops(problem), 4 * (4 * (15 + 2)) * 8);
  EXPECT_EQ(paper_flops(problem), useful_flops(problem));
}

TEST(Accounting, CompulsoryBytesOfABackward) {
  Problem problem = small_problem();
  problem.mask = parse_mask("padding");
  problem.lengths = {.kind = LengthsKind::padding, .keys = {5, 1}};
  for (const Pass pass : {Pass::bwd, Pass::fwdbwd}) {
    problem.pass = pass;
    // q, o, dO, dQ have 2*4*3*8 elements each; k, v (5+1)*2*8; dK, dV (5+5)*2*8; lse 2*4*3.
    EXPECT_EQ(compulsory_bytes(problem), 4 * (4 * 192 + 2 * 96 + 2 * 160 + 24));
  }
}

TEST(Accounting, CompulsoryLseIsThatOfRowsThatExist) {
  Problem problem = small_problem();
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {3, 1}, .keys = {5, 2}};
  EXPECT_EQ(compulsory_bytes(problem), 4 * (2 * 4 * 4 * 8 + 2 * 7 * 2 * 8 + 4 * 4));
}

// Makes a kernel that saves 70 bytes and works in 1000, in its forward in 5000.
Competitor saving_kernel() {
  static constexpr Implementation kSaving = [] {
    Implementation kernel = fake::kNaive;
    kernel.saved_bytes = [](const Problem&, const Config&) -> std::uint64_t { return 70; };
    kernel.workspace_bytes = [](const Problem& problem, const Config&,
                                const Device&) -> std::uint64_t {
      return problem.pass == Pass::fwd ? 5000 : 1000;
    };
    return kernel;
  }();
  return {.kernel = "naive", .implementation = &kSaving};
}

TEST(Accounting, MemoryByPass) {
  Problem problem = small_problem();
  problem.dtype = Dtype::bf16;
  EXPECT_EQ(compulsory_bytes(problem), 2 * (2 * 192 + 2 * 160) + 4 * 24);
  EXPECT_EQ(bytes_read_of_inputs(problem), bytes_of_inputs(problem));
  const std::uint64_t like_q = 2 * 192, like_k = 2 * 160, lse = 4 * 24;
  const struct {
    Pass pass;
    std::uint64_t inputs, outputs, saved, workspace, most_workspace;
  } passes[] = {
      {Pass::fwd, like_q + 2 * like_k, like_q, lse, 5000, 5000},
      {Pass::bwd, 3 * like_q + 2 * like_k, like_q + 2 * like_k, lse + 70, 1000, 5000},
      {Pass::fwdbwd, 2 * like_q + 2 * like_k, 2 * like_q + 2 * like_k, lse + 70, 1000, 1000},
  };
  for (const auto& expected : passes) {
    problem.pass = expected.pass;
    const Memory memory = memory_needed(problem, saving_kernel(), fake::cpu());
    EXPECT_EQ(memory.inputs_bytes, expected.inputs) << to_string(problem.pass);
    EXPECT_EQ(memory.outputs_bytes, expected.outputs) << to_string(problem.pass);
    EXPECT_EQ(memory.saved_bytes, expected.saved) << to_string(problem.pass);
    EXPECT_EQ(memory.workspace_bytes, expected.workspace) << to_string(problem.pass);
    EXPECT_FALSE(memory.peak_bytes.has_value());
    EXPECT_EQ(most_bytes(problem, saving_kernel(), fake::cpu()),
              expected.inputs + expected.outputs + expected.saved + expected.most_workspace)
        << to_string(problem.pass);
  }
}

TEST(Accounting, ATimedKernelHasASecondSetOfOutputs) {
  Problem problem = small_problem();
  problem.dtype = Dtype::bf16;
  const std::uint64_t like_q = 2 * 192, like_k = 2 * 160, lse = 4 * 24;
  const struct {
    Pass pass;
    std::uint64_t results, outputs;
  } passes[] = {{Pass::fwd, like_q, like_q + lse},
                {Pass::bwd, like_q + 2 * like_k, like_q + 2 * like_k},
                {Pass::fwdbwd, 2 * like_q + 2 * like_k, 2 * like_q + 2 * like_k + lse + 70}};
  for (const auto& expected : passes) {
    problem.pass = expected.pass;
    EXPECT_EQ(bytes_of_results(problem), expected.results);
    EXPECT_EQ(bytes_of_outputs(problem, saving_kernel()), expected.outputs);
    const std::uint64_t verified = most_bytes(problem, saving_kernel(), fake::cpu());
    const std::uint64_t timed = most_bytes_timed(problem, saving_kernel(), fake::cpu());
    // The forward before a backward needs 4000 bytes more of workspace, which are given back.
    EXPECT_EQ(timed, problem.pass == Pass::bwd ? verified : verified + expected.outputs);
  }
}

// Inputs of e4m3 are fp32 and what was made of them; o is f16.
TEST(Accounting, MemoryOfE4m3) {
  Problem problem = small_problem();
  problem.dtype = Dtype::e4m3;
  const std::uint64_t q = 192, k = 160, o = 2 * q, lse = 4 * 24;
  const std::uint64_t transposed = 2 * 2 * 8 * 128, scales = 4 * (2 * 4 + 2 * 2 + 2 * 2 * 8);
  const std::uint64_t inputs = 4 * (q + 2 * k) + q + 2 * k + transposed + scales;
  const Memory memory = memory_needed(problem, saving_kernel(), fake::cpu());
  EXPECT_EQ(memory.inputs_bytes, inputs);
  EXPECT_EQ(bytes_read_of_inputs(problem), q + 2 * k + scales);
  EXPECT_EQ(memory.outputs_bytes, o);
  EXPECT_EQ(bytes_of_results(problem), o);
  EXPECT_EQ(bytes_of_outputs(problem, saving_kernel()), o + lse);
  EXPECT_EQ(most_bytes_timed(problem, saving_kernel(), fake::cpu()),
            inputs + 2 * (o + lse) + memory.workspace_bytes);
}

// A backward finds what a forward with a config of its own has left.
TEST(Accounting, TheForwardBeforeABackwardHasItsOwnConfig) {
  static constexpr Implementation kKernel = [] {
    Implementation kernel = fake::kTiled;
    kernel.saved_bytes = [](const Problem&, const Config& config) {
      return static_cast<std::uint64_t>(config.get("block_m"));
    };
    kernel.workspace_bytes = [](const Problem&, const Config& config, const Device&) {
      return static_cast<std::uint64_t>(100 * config.get("block_m"));
    };
    kernel.forward_config = [](const Config& config) {
      Config forward = config;
      forward.set("block_m", 128);
      return forward;
    };
    return kernel;
  }();
  const Competitor competitor = {
      .kernel = "v2", .implementation = &kKernel, .config = default_config(kKernel)};
  Problem problem = small_problem();
  problem.pass = Pass::bwd;
  EXPECT_EQ(kernel_saved_bytes(problem, competitor), 128u);
  EXPECT_EQ(memory_needed(problem, competitor, fake::cpu()).workspace_bytes, 6400u);
  EXPECT_EQ(forward_workspace_bytes(problem, competitor, fake::cpu()), 12800u);
  problem.pass = Pass::fwdbwd;
  EXPECT_EQ(kernel_saved_bytes(problem, competitor), 64u);
}

TEST(Accounting, PatternsAreSummarised) {
  Problem problem = {.seqlen_q = 8, .seqlen_k = 8, .mask = parse_mask("blocks:local:0:4x2")};
  EXPECT_FALSE(summarize_pattern({}).has_value());
  const PatternSummary summary = summarize_pattern(problem).value();
  EXPECT_DOUBLE_EQ(summary.visible_fraction, 2.0 / 8.0);
  const unsigned char bytes[] = {1, 0, 0, 0, 0, 1, 0, 0};
  EXPECT_EQ(summary.hash, fnv1a(bytes, sizeof bytes));
  problem.mask.blocks->pattern = "spiral";
  EXPECT_FALSE(summarize_pattern(problem).has_value());
}

// The algorithm's authors publish these answers.
TEST(Fnv1a, KnownAnswers) {
  EXPECT_EQ(fnv1a("", 0), 0xCBF29CE484222325u);
  EXPECT_EQ(fnv1a("a", 1), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(fnv1a("foobar", 6), 0x85944171F73967E8u);
}

}  // namespace
}  // namespace attnlab
