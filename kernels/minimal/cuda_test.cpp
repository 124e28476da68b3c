// Tests minimal on a GPU as far as no GPU is needed: what it refuses, its traffic, its units.
#include "kernels/minimal/cuda.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/api/compiler.h"
#include "kernels/minimal/cpu.h"
#include "kernels/minimal/schedule.h"

namespace attnlab::minimal {
namespace {

Problem make_problem(i64 head_dim) {
  return {.batch = 2,
          .num_heads_q = 4,
          .num_heads_kv = 1,
          .seqlen_q = 70,
          .seqlen_k = 90,
          .head_dim = head_dim,
          .mask = parse_mask("causal")};
}

std::string reason(const Problem& problem, const char* arch = "sm_90a") {
  return kCuda.unsupported(problem, default_config(kCuda), device_of_arch(arch));
}

TEST(MinimalCuda, IsATeachingKernel) {
  EXPECT_EQ(reason(make_problem(256)), "");
  Problem problem = make_problem(64);
  problem.dtype = Dtype::bf16;
  EXPECT_NE(reason(problem).find("teaching"), std::string::npos);
  problem.dtype = Dtype::f32;
  problem.pass = Pass::bwd;
  EXPECT_NE(reason(problem).find("teaching"), std::string::npos);
  EXPECT_NE(reason(make_problem(257)).find("256"), std::string::npos);
}

// Four tiles of 32 rows must fit what a block of the chip may have.
TEST(MinimalCuda, HeadDimMustFitSharedMemory) {
  EXPECT_EQ(shared_bytes(64), 4U * 32 * 64 * 4);
  EXPECT_EQ(shared_bytes(61), shared_bytes(64));
  EXPECT_EQ(reason(make_problem(128), "sm_75"), "");
  EXPECT_NE(reason(make_problem(129), "sm_75").find("shared memory"), std::string::npos);
  EXPECT_EQ(reason(make_problem(192), "sm_89"), "");
  EXPECT_NE(reason(make_problem(256), "sm_89").find("131072"), std::string::npos);
  EXPECT_EQ(reason(make_problem(256), "sm_80"), "");
}

TEST(MinimalCuda, TrafficIsThatOfTheSchedule) {
  const Traffic traffic = kCuda.traffic(make_problem(64), default_config(kCuda));
  EXPECT_EQ(traffic, kCpu.traffic(make_problem(64), default_config(kCpu)));
  EXPECT_GT(traffic.read_bytes(), 0);
}

TEST(MinimalCuda, OneUnitAHeadDim) {
  std::set<std::string> sources;
  for (const i64 seqlen : {1, 500, 4096}) {
    for (const i64 head_dim : {32, 64}) {
      Problem problem = make_problem(head_dim);
      problem.seqlen_k = seqlen;
      problem.dropout = seqlen == 1 ? 0.0 : 0.5;
      const auto units = kCuda.units(problem, default_config(kCuda), device_of_arch("sm_90a"));
      ASSERT_EQ(units.size(), 1U);
      sources.insert(units.front().source);
    }
  }
  EXPECT_EQ(sources.size(), 2U);
}

}  // namespace
}  // namespace attnlab::minimal
