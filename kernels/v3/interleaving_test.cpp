// Runs v3's roles under thousands of interleavings: always the same bits, and the right ones; and
// with a fault planted in any ring, an overwrite, a stale read or a deadlock that is found as such.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "kernels/api/registry.h"
#include "kernels/shared/philox.h"
#include "kernels/v3/cpu.h"
#include "kernels/v3/cpu_passes.h"

namespace attnlab::v3 {
namespace {

using cpu::Fault;
using cpu::FaultKind;

constexpr i32 kBlock = 8;

// The problem is small, yet has all that makes roles differ: two query heads on one K/V head, a
// last pair whose second tile is missing, tiles that only one consumer sees, masks, dropout.
Problem make_problem() {
  return {.pass = Pass::fwdbwd,
          .num_heads_q = 2,
          .num_heads_kv = 1,
          .seqlen_q = 37,
          .seqlen_k = 52,
          .head_dim = 8,
          .mask = parse_mask("causal"),
          .dropout = 0.25,
          .seed = 11};
}

Config make_config(i64 stages, i64 seed) {
  Config config = default_config(kCpu);
  config.set("block_m", kBlock);
  config.set("block_n", kBlock);
  config.set("stages", stages);
  config.set("schedule_seed", seed);
  return config;
}

// Memory holds the tensors of a problem; inputs are random numbers in [-1, 1).
class Memory {
 public:
  explicit Memory(const Problem& problem)
      : q_(random(problem.elements_q(), 1)),
        k_(random(problem.elements_k(), 2)),
        v_(random(problem.elements_k(), 3)),
        dout_(random(problem.elements_q(), 4)),
        saved_(cpu::SavedSoftmax::bytes(problem)) {
    for (const i64 count : {problem.elements_q(), problem.elements_lse(), problem.elements_q(),
                            problem.elements_k(), problem.elements_k()}) {
      outputs_.emplace_back(static_cast<std::size_t>(count));
    }
  }
  Tensors tensors() {
    return {.q = q_.data(),
            .k = k_.data(),
            .v = v_.data(),
            .o = outputs_[0].data(),
            .lse = outputs_[1].data(),
            .dout = dout_.data(),
            .dq = outputs_[2].data(),
            .dk = outputs_[3].data(),
            .dv = outputs_[4].data(),
            .saved = saved_.data()};
  }
  const std::vector<std::vector<float>>& outputs() const { return outputs_; }  // o lse dq dk dv

 private:
  static std::vector<float> random(i64 count, u32 stream) {
    std::vector<float> values;
    for (u32 i = 0; i < count; ++i) {
      const PhiloxCounter words = philox({.x = i, .y = stream}, philox_key(7));
      values.push_back(static_cast<float>(static_cast<i32>(words.x)) * 0x1p-31f);
    }
    return values;
  }
  std::vector<float> q_, k_, v_, dout_;
  std::vector<std::byte> saved_;
  std::vector<std::vector<float>> outputs_;
};

using Outputs = std::vector<std::vector<float>>;

Outputs launch(const Implementation& kernel, const Problem& problem, const Config& config,
               int threads) {
  static const Device kDevice = cpu::cpu_device();
  Device device = kDevice;
  device.threads = threads;
  Memory memory(problem);
  std::vector<std::byte> workspace(kernel.workspace_bytes(problem, config, device),
                                   std::byte{0xFF});
  Tensors tensors = memory.tensors();
  tensors.workspace = workspace.data();
  tensors.workspace_bytes = workspace.size();
  PreparedKernel* prepared = kernel.prepare(problem, config, device);
  kernel.launch(prepared, tensors, nullptr);
  kernel.release(prepared);
  return memory.outputs();
}

TEST(V3Interleavings, TenThousandGiveTheSameBits) {
  const Problem problem = make_problem();
  const Outputs want = launch(kCpu, problem, make_config(2, 0), 1);
  for (i64 seed = 1; seed <= 10'000; ++seed) {
    const i64 stages = 2 + seed % 3;
    ASSERT_EQ(launch(kCpu, problem, make_config(stages, seed), 1), want)
        << "schedule_seed=" << seed << ",stages=" << stages;
  }
}

// Under these masks each of the two consumers is the only one to see some tiles.
TEST(V3Interleavings, TheBitsAreRight) {
  const Implementation& v2 = *builtin_registry().find("v2", Backend::cpu);
  for (const char* mask : {"none", "causal", "window:5:0", "window:0:9", "window:-1:3"}) {
    Problem problem = make_problem();
    problem.mask = parse_mask(mask);
    const Outputs want = launch(v2, problem, default_config(v2), 1);
    for (i64 seed = 0; seed < 50; ++seed) {
      const Outputs got = launch(kCpu, problem, make_config(3, seed), 1);
      const char* names[] = {"o", "lse", "dq", "dk", "dv"};
      for (std::size_t output = 0; output < want.size(); ++output) {
        for (std::size_t i = 0; i < want[output].size(); ++i) {
          const float x = want[output][i], y = got[output][i];
          ASSERT_TRUE(x == y || std::abs(x - y) <= 1e-5f * (1 + std::abs(x)))
              << problem.id() << " " << names[output] << " " << i << ": " << y << ", v2 " << x
              << ", schedule_seed=" << seed;
        }
      }
    }
  }
}

TEST(V3Interleavings, ThreadsDoNotChangeTheBitsInDeterministicMode) {
  Problem problem = make_problem();
  problem.mask = parse_mask("none");
  problem.seqlen_k = 500;
  Config config = make_config(2, 3);
  config.set("deterministic", 1);
  const Outputs want = launch(kCpu, problem, config, 1);
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (const int threads : {2, 3, 4}) {
      ASSERT_EQ(launch(kCpu, problem, config, threads), want) << threads << " threads";
    }
  }
}

// Items runs single work items, which tests can watch and break.
class Items {
 public:
  Items(Pass pass, i32 stages, u64 seed)
      : work_{.problem = problem_,
              .shape = shape_,
              .tiling = {.block_m = kBlock, .block_n = kBlock},
              .stages = stages,
              .schedule_seed = seed,
              .dropout = make_dropout(problem_.dropout, problem_.seed),
              .saved = {problem_, saved_.data()}},
        memory_(problem_),
        tensors_(memory_.tensors()),
        group_{{problem_, shape_, entries_[0], tensors_, 0, 0},
               {problem_, shape_, entries_[0], tensors_, 0, 1}},
        backward_(pass == Pass::bwd) {
    cpu::TileCarver size(nullptr);
    carve_forward(size, work_);
    carve_backward(size, work_);
    fast_.resize(size.bytes() / sizeof(float) + 16);
  }

  // Runs the second pair of query tiles of head 1, or the first pair of key tiles of both heads.
  void run(const cpu::Probe& probe) {
    cpu::TileCarver carver(fast_.data());
    cpu::Executor executor(cpu::supported_tile_ops().front());
    if (backward_) {
      cpu::DqSums sums(problem_, {.block_m = kBlock, .item_keys = kConsumers * kBlock},
                       hbm_.data());
      backward(work_, sums, group_, 0, carve_backward(carver, work_), executor, probe);
    } else {
      forward(work_, group_[1], 1, carve_forward(carver, work_), executor, probe);
    }
  }

 private:
  Problem problem_ = make_problem();
  Shape shape_ = make_shape(problem_);
  std::vector<std::byte> saved_ = std::vector<std::byte>(cpu::SavedSoftmax::bytes(problem_));
  Work work_;
  Memory memory_;
  Tensors tensors_;
  std::vector<cpu::BatchEntry> entries_ = cpu::make_entries(problem_, nullptr);
  std::vector<cpu::SliceTensors> group_;
  bool backward_;
  std::vector<float> fast_;
  std::vector<float> hbm_ = std::vector<float>(cpu::DqSums::bytes(problem_) / sizeof(float), 0.0f);
};

std::vector<i32> trace_of(Pass pass, u64 seed) {
  std::vector<i32> trace;
  cpu::Probe probe;
  probe.trace = &trace;
  Items(pass, 2, seed).run(probe);
  return trace;
}

TEST(V3Interleavings, TheSeedGivesTheSameInterleavingAgain) {
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    std::set<std::vector<i32>> traces;
    for (u64 seed = 0; seed < 200; ++seed) {
      const std::vector<i32> trace = trace_of(pass, seed);
      ASSERT_EQ(trace, trace_of(pass, seed)) << "schedule_seed=" << seed;
      traces.insert(trace);
    }
    EXPECT_EQ(traces.size(), 200u);  // and others give others
  }
}

using Kinds = std::set<FaultKind>;

struct Planted {
  Pass pass;
  const char* ring;
  Fault fault;
  i64 fill;
  Kinds kinds;         // what it must be found as: all of them, and nothing else
  bool always = true;  // false: a race that some interleavings win
};

constexpr FaultKind kOverwrite = FaultKind::overwrite, kStale = FaultKind::stale_read,
                    kDeadlock = FaultKind::deadlock;

TEST(V3Faults, AreFoundAsWhatTheyAre) {
  const Planted planted[] = {
      {Pass::fwd, "K", Fault::early_release, 0, {kOverwrite}, false},
      {Pass::fwd, "K", Fault::early_release, 1, {kOverwrite}, false},
      {Pass::fwd, "V", Fault::early_release, 0, {kOverwrite}, false},
      {Pass::fwd, "K", Fault::double_release, 1, {kOverwrite}, false},
      {Pass::fwd, "K", Fault::missing_arrive, 1, {kDeadlock}},
      {Pass::fwd, "V", Fault::missing_arrive, 1, {kDeadlock}},
      {Pass::fwd, "Q", Fault::missing_arrive, 0, {kDeadlock}},
      {Pass::fwd, "Q", Fault::wrong_phase, 0, {kStale, kDeadlock}},
      // A role that waited for Q finds the first K complete, then waits for a phase without end.
      {Pass::fwd, "K", Fault::wrong_phase, 0, {kDeadlock}},
      {Pass::fwd, "V", Fault::wrong_phase, 0, {kStale, kDeadlock}},
      {Pass::fwd, "K", Fault::one_stage_fewer, 0, {kStale}},
      {Pass::fwd, "V", Fault::one_stage_fewer, 0, {kStale}},
      {Pass::bwd, "Q", Fault::early_release, 1, {kOverwrite}, false},
      {Pass::bwd, "dQ", Fault::early_release, 1, {kOverwrite}, false},
      {Pass::bwd, "Q", Fault::double_release, 1, {kOverwrite}, false},
      {Pass::bwd, "KV", Fault::missing_arrive, 0, {kDeadlock}},
      {Pass::bwd, "Q", Fault::missing_arrive, 2, {kDeadlock}},
      {Pass::bwd, "dO", Fault::missing_arrive, 2, {kDeadlock}},
      {Pass::bwd, "dQ", Fault::missing_arrive, 2, {kDeadlock}},
      {Pass::bwd, "Q", Fault::wrong_phase, 0, {kStale, kDeadlock}},
      {Pass::bwd, "dO", Fault::wrong_phase, 0, {kStale, kDeadlock}},
      {Pass::bwd, "dQ", Fault::wrong_phase, 0, {kStale, kDeadlock}},
      {Pass::bwd, "Q", Fault::one_stage_fewer, 0, {kStale}},
      {Pass::bwd, "dQ", Fault::one_stage_fewer, 0, {kStale}},
  };
  for (const Planted& each : planted) {
    Kinds found;
    int unnoticed = 0;
    constexpr int kSeeds = 300;
    for (u64 seed = 1; seed <= kSeeds; ++seed) {
      try {
        Items(each.pass, 2, seed).run({.ring = each.ring, .fault = each.fault, .fill = each.fill});
        ++unnoticed;
      } catch (const cpu::RoleFault& fault) {
        found.insert(fault.kind);
        EXPECT_NE(std::string(fault.what()), "");
      }
    }
    const std::string name = std::string(to_string(each.pass)) + " " + each.ring + " fault " +
                             std::to_string(static_cast<int>(each.fault));
    EXPECT_EQ(found, each.kinds) << name;
    EXPECT_LT(unnoticed, kSeeds) << name;
    if (each.always) {
      EXPECT_EQ(unnoticed, 0) << name;
    }
  }
}

TEST(V3Faults, NoneIsFoundWhereNoneIs) {
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    for (u64 seed = 0; seed < 300; ++seed) EXPECT_NO_THROW(Items(pass, 2, seed).run({}));
  }
}

}  // namespace
}  // namespace attnlab::v3
