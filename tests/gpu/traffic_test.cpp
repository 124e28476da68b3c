// Compares what v3's schedule counts with what the GPU does: FLOPs of wgmma and bytes read, of a
// real one by its counters, of the emulated one by itself.
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "harness/plan/lengths.h"
#include "kernels/api/counters.h"
#include "kernels/v3/cuda_tiles.h"
#include "tests/emulator/counts.h"
#include "tests/gpu/emulated.h"
#include "tests/gpu/forward_launch.h"

namespace attnlab {
namespace {

struct Done {
  double flops = 0.0;
  double read_bytes = 0.0;
  std::optional<double> stored_bytes = {};  // by bulk copies; empty: the GPU does not say
};

struct TrafficCase {
  const char* name;
  std::int64_t head_dim;
  std::int64_t consumers;
  const char* mask;
  Layout layout = Layout::bhsd;
};

void PrintTo(const TrafficCase& what, std::ostream* stream) { *stream << what.name; }

class GpuTraffic : public GpuTest, public testing::WithParamInterface<TrafficCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    take_counts_ = emulated<void(emulator::Counts*)>("attnlab_emulator_take_counts");
    if (take_counts_ != nullptr) return;
    if (const std::string why = counters_of(gpu()).why_not(); !why.empty()) GTEST_SKIP() << why;
  }

  Done count(const std::function<void()>& launch) const {
    if (take_counts_ == nullptr) {
      const HardwareCounts counts = counters_of(gpu()).count({}, [&](int) { launch(); });
      return {.flops = counts.wgmma_flops.value(), .read_bytes = counts.sm_read_bytes.value()};
    }
    emulator::Counts counts;
    take_counts_(&counts);
    launch();
    runtime().synchronize();
    take_counts_(&counts);
    return {.flops = static_cast<double>(counts.product_flops),
            .read_bytes = static_cast<double>(counts.box_read_bytes),
            .stored_bytes = static_cast<double>(counts.box_write_bytes)};
  }

  void (*take_counts_)(emulator::Counts*) = nullptr;
};

// A real GPU's counters also see what no schedule counts, like parameters: the problem is large.
// They count the zeros, too, that fill a copy up beyond the tensor's end: its lengths are whole
// tiles.
void enlarge(Problem& problem, const Config& config) {
  const std::int64_t tiles = std::lcm(config.get("block_m"), config.get("block_n"));
  problem.seqlen_q = problem.seqlen_k = (4000 / tiles + 1) * tiles;
  problem.batch = 4;
  problem.num_heads_q = problem.num_heads_kv = 32;
  problem.lengths = {};
  problem.lengths = make_lengths(problem);
}

// Counts rows of all query heads that exist, and the bytes of theirs in q, o and their like.
std::int64_t existing_rows(const Problem& problem) {
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) rows += problem.queries(b);
  return rows * problem.num_heads_q;
}
std::int64_t bytes_of_rows(const Problem& problem) {
  return existing_rows(problem) * problem.head_dim * 2;
}

Problem problem_of(const TrafficCase& what, Pass pass) {
  Problem problem = {.pass = pass,
                     .dtype = Dtype::f16,
                     .batch = 2,
                     .num_heads_q = 2,
                     .num_heads_kv = 1,
                     .seqlen_q = 330,
                     .seqlen_k = 330,
                     .head_dim = what.head_dim,
                     .mask = parse_mask(what.mask),
                     .layout = what.layout};
  problem.lengths = make_lengths(problem);
  return problem;
}

TEST_P(GpuTraffic, IsWhatTheScheduleCounts) {
  const TrafficCase& what = GetParam();
  const bool is_real = take_counts_ == nullptr;
  Problem problem = problem_of(what, Pass::fwd);
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  Config config = default_config(v3);
  config.set("consumers", what.consumers);
  config = v3.resolved(problem, config, gpu());
  if (const std::string why = v3.unsupported(problem, config, gpu()); !why.empty()) {
    GTEST_SKIP() << why;
  }
  if (is_real) enlarge(problem, config);

  const ForwardLaunch launch(v3, problem, config);
  const Done done = count([&launch] { launch(); });

  const Traffic counted = v3.traffic(problem, config);
  EXPECT_EQ(done.flops, static_cast<double>(counted.executed_flops));
  auto bytes = static_cast<double>(counted.read_bytes());
  const std::int64_t columns = (what.head_dim + 63) / 64 * 64;  // with those of zeros
  if (is_real) bytes = bytes / static_cast<double>(what.head_dim) * static_cast<double>(columns);
  RecordProperty("read", std::to_string(done.read_bytes / bytes));
  EXPECT_NEAR(done.read_bytes, bytes, is_real ? 0.01 * bytes : 0.0);
  if (done.stored_bytes && what.layout != Layout::packed) {  // packed rows are stored by threads
    EXPECT_EQ(*done.stored_bytes, static_cast<double>(counted[Operand::o].write_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(V3, GpuTraffic,
                         testing::Values(TrafficCase{"d64_none", 64, 3, "none"},
                                         TrafficCase{"d64_causal", 64, 3, "causal"},
                                         TrafficCase{"d64_padding", 64, 3, "padding"},
                                         TrafficCase{"d64_packed", 64, 3, "causal", Layout::packed},
                                         TrafficCase{"d96_window", 96, 2, "window:70:0"},
                                         TrafficCase{"d128_pattern", 128, 2,
                                                     "blocks:local:1:64x64"},
                                         TrafficCase{"d256_causal", 256, 2, "causal"}),
                         [](const auto& instance) { return std::string(instance.param.name); });

class GpuBackwardTraffic : public GpuTraffic {};

// It runs a forward and its backward. Of the backward's bytes the emulated GPU sees those of bulk
// copies: not the rows of O, dO and lse that come before, nor dQ's sums on their way to dQ.
TEST_P(GpuBackwardTraffic, IsWhatTheScheduleCounts) {
  const TrafficCase& what = GetParam();
  const bool is_real = take_counts_ == nullptr;
  Problem problem = problem_of(what, Pass::fwdbwd);
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  const Config config = default_config(v3);
  if (const std::string why = v3.unsupported(problem, config, gpu()); !why.empty()) {
    GTEST_SKIP() << why;
  }
  Config all_tiles = config;  // of both passes; the forward's at head dim 192 have 112 keys
  all_tiles.set("block_m", what.head_dim == 192 ? 2688 : 1920);
  all_tiles.set("block_n", 128);
  if (is_real) enlarge(problem, all_tiles);

  Arena arena(runtime());
  const Inputs inputs(arena, problem, InputKind::normal, 7, 4);
  Tensors tensors = inputs.tensors();
  const Arena::Buffer o = arena.allocate("o", bytes_like_q(problem));
  const Arena::Buffer lse = arena.allocate("lse", bytes_of_lse(problem));
  const Arena::Buffer dq = arena.allocate("dq", bytes_like_q(problem));
  const Arena::Buffer dk = arena.allocate("dk", bytes_like_k(problem));
  const Arena::Buffer dv = arena.allocate("dv", bytes_like_k(problem));
  tensors.workspace_bytes = v3.workspace_bytes(problem, config, gpu());
  const Arena::Buffer workspace = arena.allocate("workspace", tensors.workspace_bytes);
  tensors.o = o.get();
  tensors.lse = static_cast<float*>(lse.get());
  tensors.dq = dq.get();
  tensors.dk = dk.get();
  tensors.dv = dv.get();
  tensors.workspace = workspace.get();
  PreparedKernel* const prepared = v3.prepare(problem, config, gpu());
  const Done done = count([&] { v3.launch(prepared, tensors, runtime().queue()); });
  v3.release(prepared);

  const Traffic counted = v3.traffic(problem, config);
  EXPECT_EQ(done.flops, static_cast<double>(counted.executed_flops));
  if (is_real) {
    const auto bytes = static_cast<double>(counted.read_bytes());
    RecordProperty("read", std::to_string(done.read_bytes / bytes));
    EXPECT_NEAR(done.read_bytes, bytes, 0.02 * bytes);
    return;
  }
  const std::int64_t before = bytes_of_rows(problem);
  const std::int64_t by_loads = counted[Operand::o].read_bytes + before +
                                counted[Operand::dq].read_bytes + existing_rows(problem) * 4;
  EXPECT_EQ(done.read_bytes, static_cast<double>(counted.read_bytes() - by_loads));
  const std::int64_t o_by_copies =
      what.layout == Layout::packed ? 0 : counted[Operand::o].write_bytes;
  // Sums of dQ are cleared and rounded by stores. Where consumers share columns, threads add to
  // them, else bulk copies.
  const bool adds_by_copies = !v3::backward_config_of(problem, config).shares_columns();
  const std::int64_t added =
      adds_by_copies ? counted[Operand::dq].write_bytes - counted[Operand::dq].read_bytes - before
                     : 0;
  EXPECT_EQ(*done.stored_bytes, static_cast<double>(o_by_copies + added));
}

INSTANTIATE_TEST_SUITE_P(
    V3, GpuBackwardTraffic,
    testing::Values(TrafficCase{"d64_none", 64, 0, "none"},
                    TrafficCase{"d64_padding", 64, 0, "padding"},
                    TrafficCase{"d64_packed", 64, 0, "causal", Layout::packed},
                    TrafficCase{"d128_causal", 128, 0, "causal"},
                    TrafficCase{"d128_pattern", 128, 0, "blocks:local:1:64x64"},
                    TrafficCase{"d192_window", 192, 0, "window:70:0"},
                    TrafficCase{"d256_causal", 256, 0, "causal"},
                    TrafficCase{"d256_packed", 256, 0, "causal", Layout::packed}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace attnlab
