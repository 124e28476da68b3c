// Tests v2 on the CPU: closed forms of its traffic, and what its work partitioning promises.
#include "kernels/v2/cpu.h"

#include "kernels/cpu/test_support.h"

namespace attnlab::v2 {
namespace {

using namespace cpu::testing_support;

TEST(V2Traffic, ForwardReadsKeysOncePerQueryTile) {
  expect_forward_traffic(kCpu, kSeqlen / kBlock);
  const Traffic causal = traffic_of(kCpu, make_problem(Pass::fwd, "causal"));
  EXPECT_EQ(causal[Operand::k], reads(kSlices * 10 * kBlock * kHeadDim));
}

TEST(V2Traffic, BackwardReadsRowsOncePerKeyTile) {
  expect_backward_traffic(kCpu, kSeqlen / kBlock);
}

TEST(V2, WorkspaceIsLinearInTheRowsAndIndependentOfTheKeys) {
  expect_workspace_linear_in_rows(kCpu);
}

}  // namespace
}  // namespace attnlab::v2
