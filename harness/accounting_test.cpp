#include "harness/accounting.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

// b 2, hq 4, hkv 2, sq 3, sk 5, d 8.
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
  // q and o: 2*4*3*8; k and v: (5+1)*2*8; lse: 2*4*3.
  EXPECT_EQ(compulsory_bytes(problem), 4 * (2 * 192 + 2 * 96 + 24));
}

TEST(Accounting, PackedSumsOverEntries) {
  Problem problem = small_problem();
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {3, 1}, .keys = {5, 2}};
  EXPECT_EQ(useful_flops(problem), 4 * (4 * (15 + 2)) * 8);
  EXPECT_EQ(paper_flops(problem), useful_flops(problem));
}

TEST(Accounting, BytesByDtype) {
  Problem problem = small_problem();
  problem.dtype = Dtype::bf16;
  EXPECT_EQ(compulsory_bytes(problem), 2 * (2 * 192 + 2 * 160) + 4 * 24);
  const Memory memory = memory_needed(problem, 1000);
  EXPECT_EQ(memory.inputs_bytes, 2u * (192 + 2 * 160));
  EXPECT_EQ(memory.outputs_bytes, 2u * 192);
  EXPECT_EQ(memory.saved_bytes, 4u * 24);
  EXPECT_EQ(memory.workspace_bytes, 1000u);
  EXPECT_FALSE(memory.peak_bytes.has_value());
}

}  // namespace
}  // namespace attnlab
