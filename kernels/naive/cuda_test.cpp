// Tests naive on a GPU as far as no GPU is needed: what it refuses, memory and traffic, its units.
#include "kernels/naive/cuda.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kernels/cuda/test_kernel.h"
#include "kernels/naive/cpu.h"

namespace attnlab::naive {
namespace {

Problem make_problem(Pass pass, Dtype dtype) {
  return {.pass = pass,
          .dtype = dtype,
          .batch = 2,
          .num_heads_q = 4,
          .num_heads_kv = 2,
          .seqlen_q = 70,
          .seqlen_k = 301,
          .head_dim = 24,
          .mask = parse_mask("causal"),
          .dropout = 0.1};
}

using cuda::hopper;

std::string reason(const Problem& problem, i64 tf32, const Device& device) {
  Config config;
  config.set("tf32", tf32);
  return kCuda.unsupported(problem, config, device);
}

TEST(NaiveCuda, RefusesWithAReason) {
  const Problem problem = make_problem(Pass::fwdbwd, Dtype::bf16);
  EXPECT_EQ(reason(problem, 0, hopper()), "");
  EXPECT_EQ(reason(problem, 0, device_of_arch("sm_75")), "");
  EXPECT_NE(reason(problem, 1, hopper()).find("f32"), std::string::npos);
  EXPECT_EQ(reason(make_problem(Pass::fwd, Dtype::f32), 1, hopper()), "");
  EXPECT_NE(reason(problem, 2, hopper()).find("tf32"), std::string::npos);
  Device volta = hopper();
  volta.compute_capability = 70;
  EXPECT_NE(reason(problem, 0, volta).find("7.5"), std::string::npos);
  Problem wide = problem;
  wide.head_dim = 1000;
  EXPECT_EQ(reason(wide, 0, hopper()), "");
  wide.mask = parse_mask("blocks:butterfly:16x16");  // of a matrix that is not square
  EXPECT_NE(reason(wide, 0, hopper()), "");
}

// It counts in f32 all bytes that the CPU side counts; in 16 bits all but those of lse.
TEST(NaiveCuda, TrafficIsThatOfTheSchedule) {
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
      const Problem problem = make_problem(pass, dtype);
      const Traffic traffic = kCuda.traffic(problem, default_config(kCuda));
      Traffic want = kCpu.traffic(problem, default_config(kCpu));
      EXPECT_EQ(kCuda.writes_lse(problem), dtype == Dtype::f32);
      if (dtype == Dtype::f16) want[Operand::lse] = {};
      EXPECT_EQ(traffic, want) << problem.id();
      EXPECT_GT(traffic[Operand::p].read_bytes, 0);
    }
  }
}

// Around a forward of f32 codes are read once, and O is rounded once.
TEST(NaiveCuda, E4m3IsF32BetweenTwoPasses) {
  Problem problem = make_problem(Pass::fwd, Dtype::e4m3);
  problem.dropout = 0.0;
  Problem in_f32 = problem;
  in_f32.dtype = Dtype::f32;
  const Config config = default_config(kCuda);
  EXPECT_TRUE(kCuda.has_e4m3);
  EXPECT_TRUE(kCuda.writes_lse(problem));
  EXPECT_EQ(kCuda.units(problem, config, hopper()).size(), 2U);
  const i64 queries = 2 * 4 * 70 * 24, keys = 2 * 2 * 301 * 24;
  const u64 values = 2 * (round_up<u64>(4 * queries, 256) + round_up<u64>(4 * keys, 256));
  EXPECT_EQ(kCuda.workspace_bytes(problem, config, hopper()),
            kCuda.workspace_bytes(in_f32, config, hopper()) + values);
  const Traffic traffic = kCuda.traffic(problem, config);
  const Traffic want = kCuda.traffic(in_f32, config);
  EXPECT_EQ(traffic[Operand::q].read_bytes, want[Operand::q].read_bytes + queries);
  EXPECT_EQ(traffic[Operand::v].write_bytes, 4 * keys);
  EXPECT_EQ(traffic[Operand::o].read_bytes, 4 * queries);
  EXPECT_EQ(traffic[Operand::o].write_bytes, (4 + 2) * queries);
  EXPECT_EQ(traffic[Operand::p], want[Operand::p]);
  EXPECT_NE(reason(problem, 1, hopper()).find("f32"), std::string::npos);  // tf32
  EXPECT_EQ(reason(problem, 0, hopper()), "");
  problem.dropout = 0.1;
  EXPECT_NE(reason(problem, 0, hopper()).find("dropout"), std::string::npos);
  problem.pass = Pass::bwd;
  EXPECT_NE(reason(problem, 0, hopper()).find("backward"), std::string::npos);
}

TEST(NaiveCuda, MatricesHaveRowsOf16Bytes) {
  const u64 matrix = u64{2} * 4 * 70 * 304 * 2;  // bytes, a multiple of 256
  const u64 blas = u64{32} << 20;
  const u64 addresses = round_up<u64>(u64{3} * 2 * 4 * 8, 256);
  const Config config = default_config(kCuda);
  EXPECT_EQ(kCuda.saved_bytes(make_problem(Pass::fwd, Dtype::f16), config), 0U);
  EXPECT_EQ(kCuda.saved_bytes(make_problem(Pass::bwd, Dtype::f16), config), matrix);
  const auto bytes = [&](const Problem& problem) {
    return kCuda.workspace_bytes(problem, config, hopper());
  };
  EXPECT_EQ(bytes(make_problem(Pass::fwd, Dtype::f16)), blas + 2 * matrix + addresses);
  // The workspace has fp32 dK of two query heads a K/V head, unless their rows are adjacent.
  Problem backward = make_problem(Pass::bwd, Dtype::f16);
  const u64 sums = round_up<u64>(u64{2} * 2 * 301 * 24 * 4, 256);
  EXPECT_EQ(bytes(backward), blas + 2 * matrix + sums + addresses);
  backward.layout = Layout::bhsd;
  EXPECT_EQ(bytes(backward), blas + 2 * matrix + addresses);
  backward.dropout = 0.0;
  EXPECT_EQ(bytes(backward), blas + matrix + addresses);
}

TEST(NaiveCuda, FewUnitsServeAllProblems) {
  std::mt19937 random(1);
  const auto one_of = [&random](auto... values) {
    const std::vector<std::common_type_t<decltype(values)...>> all = {values...};
    return all[random() % all.size()];
  };
  std::set<std::string> sources;
  for (int i = 0; i < 500; ++i) {
    Problem problem = make_problem(one_of(Pass::fwd, Pass::bwd, Pass::fwdbwd),
                                   one_of(Dtype::f32, Dtype::f16, Dtype::bf16));
    if (i % 10 == 0) problem.dtype = Dtype::e4m3;
    if (problem.is_e4m3()) problem.pass = Pass::fwd;
    problem.seqlen_q = 1 + random() % 5000;
    problem.seqlen_k = 1 + random() % 20000;
    problem.head_dim = 1 + random() % 300;
    problem.mask = parse_mask(one_of("none", "causal", "window:3:4"));
    problem.dropout = one_of(0.0, 0.1);
    for (const KernelUnit& unit : kCuda.units(problem, default_config(kCuda), hopper())) {
      sources.insert(unit.source);
    }
  }
  EXPECT_EQ(sources.size(), 7U);
}

TEST(NaiveCudaTraffic, RowsThatNoBlockHoldsAreReadTwice) {
  Problem problem = {.dtype = Dtype::f16, .num_heads_q = 2, .num_heads_kv = 2, .seqlen_q = 4};
  const auto extra = [&](Pass pass, std::int64_t keys, Operand operand) {
    problem.pass = pass;
    problem.seqlen_k = keys;
    const Traffic gpu = kCuda.traffic(problem, default_config(kCuda));
    return gpu[operand].read_bytes - count_passes(problem, WritesLse::in_f32)[operand].read_bytes;
  };
  EXPECT_EQ(extra(Pass::fwd, 8192, Operand::s), 0);
  EXPECT_EQ(extra(Pass::fwd, 8193, Operand::s), 2 * 4 * 8193 * 2);
  EXPECT_EQ(extra(Pass::bwd, 8193, Operand::s), 0);
  EXPECT_EQ(extra(Pass::bwd, 8193, Operand::p), 2 * 4 * 8193 * 2);
  EXPECT_EQ(extra(Pass::fwdbwd, 8193, Operand::dp), 2 * 4 * 8193 * 2);
}

}  // namespace
}  // namespace attnlab::naive
