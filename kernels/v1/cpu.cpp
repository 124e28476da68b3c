// Implements v1 on the CPU: FlashAttention as first published (2022).
//
// Against naive: S and P never reach HBM. A tile of K and V stays in fast memory while all query
// rows pass by; the softmax of a row is carried from tile to tile by its maximum m and its sum l;
// backward computes P again from Q, K, m and l. So memory beyond inputs and outputs grows with
// seqlen, not with its square, and HBM sees O(N^2 d^2 / M) elements instead of O(N d + N^2).
//
// What it costs, and v2 changes: since key tiles are outside, a row is finished only at the very
// end, so O (normalised every time), l and m go to HBM and back at every step, and the rows of a
// head cannot be given to different workers: parallelism is batch x heads. v2 swaps the loops.
//
// Here: work items on all cores, and the same work items counted. The passes themselves are in
// cpu_forward.cpp and cpu_backward.cpp.
#include "kernels/v1/cpu.h"

#include <iterator>
#include <span>

#include "kernels/v1/cpu_passes.h"

namespace attnlab::v1 {
namespace {

using cpu::Executor;

constexpr std::int64_t kLargestBlock = 1024;
constexpr std::int64_t kTriedRows[] = {32, 64, 128};
constexpr std::int64_t kTriedKeys[] = {64, 128, 256, 512};

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile; 0: min(ceil(sram / 4d), d)", 0, 0, kLargestBlock,
     kTriedRows},
    {"block_n", "keys of a tile; 0: ceil(sram / 4d)", 0, 0, kLargestBlock, kTriedKeys},
    {"sram", "M, on-chip elements that block sizes of 0 come from; 49152: 192 KiB of fp32 (A100)",
     kDefaultSram, 64, 1 << 20},
};

Work make_work(const Problem& problem, const Config& config) {
  return {.problem = problem,
          .shape = make_shape(problem),
          .tiling = make_tiling(config.get("sram"), problem.head_dim,
                                {config.get("block_m"), config.get("block_n")}),
          .dropout = make_dropout(problem.dropout, problem.seed)};
}

// Fills in the tile that follows from sram, where it is within the range of block_m and block_n.
Config resolved(const Problem& problem, const Config& config, const Device& /*device*/) {
  const Tiling tiling = make_work(problem, config).tiling;
  Config filled = config;
  if (tiling.block_m <= kLargestBlock) filled.set("block_m", tiling.block_m);
  if (tiling.block_n <= kLargestBlock) filled.set("block_n", tiling.block_n);
  return filled;
}

// Returns the bytes of m, or of l.
u64 statistic_bytes(const Problem& problem) {
  return round_up<u64>(static_cast<u64>(problem.elements_lse()) * sizeof(float), 256);
}

// Counts m and l, from which Algorithm 4 computes P again.
std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  return problem.pass == Pass::fwd ? 0 : 2 * statistic_bytes(problem);
}

// Counts the workspace: fast memory of the workers, then what lives in HBM: m and l where no
// backward follows that they are saved for, and in 16-bit types the sums of O and dQ.
u64 worker_bytes(const Problem& problem, const Config& config) {
  const Work work = make_work(problem, config);
  cpu::TileCarver forward(nullptr), backward(nullptr);
  if (problem.runs_forward()) carve_forward(forward, work.tiling, work.shape.head_dim);
  if (problem.runs_backward()) carve_backward(backward, work.tiling, work.shape.head_dim);
  return max(forward.bytes(), backward.bytes());
}

u64 workspace_statistics_bytes(const Problem& problem) {
  return problem.pass == Pass::fwd ? 2 * statistic_bytes(problem) : 0;
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  const i64 sums = problem.dtype == Dtype::f32 ? 0 : problem.elements_lse() * problem.head_dim;
  return cpu::workers_bytes(device.threads, worker_bytes(problem, config)) +
         workspace_statistics_bytes(problem) + static_cast<u64>(sums) * sizeof(float);
}

HbmState place_state(const Problem& problem, void* saved, void* hbm) {
  void* statistics = saved != nullptr ? saved : hbm;
  return {.m = static_cast<float*>(statistics),
          .l = static_cast<float*>(cpu::behind(statistics, statistic_bytes(problem))),
          .sums = static_cast<float*>(cpu::behind(hbm, workspace_statistics_bytes(problem)))};
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  return cpu::unsupported(problem, device);
}

// Runs both passes. A work item is a whole head: one block of each.
void run_passes(const Problem& problem, const Config& config, const Tensors& tensors, void* hbm,
                cpu::Runner& runner) {
  const Work work = make_work(problem, config);
  const HbmState state = place_state(problem, tensors.saved, hbm);
  const Shape& shape = work.shape;
  if (problem.runs_forward()) {
    const WorkGrid heads = {.batch = shape.batch, .heads = shape.num_heads_q, .blocks = 1};
    runner.slices(heads, [&](const cpu::SliceTensors& slice, i64 /*block*/, cpu::TileCarver carver,
                             Executor& executor) {
      forward(work, state, slice, carve_forward(carver, work.tiling, shape.head_dim), executor);
    });
  }
  if (problem.runs_backward()) {
    const WorkGrid heads = {.batch = shape.batch, .heads = shape.num_heads_kv, .blocks = 1};
    runner.groups(heads, [&](std::span<const cpu::SliceTensors> group, i64 /*block*/,
                             cpu::TileCarver carver, Executor& executor) {
      backward(work, state, group, carve_backward(carver, work.tiling, shape.head_dim), executor);
    });
  }
}

}  // namespace

constexpr Implementation kCpu = {
    .api_version = kApiVersion,
    .name = "v1",
    .backend = Backend::cpu,
    .summary = "FlashAttention (2022): key tiles outside, query tiles inside; O, l, m in HBM",
    .axes = kAxes,
    .num_axes = static_cast<int>(std::size(kAxes)),
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = cpu::prepare,
    .launch = cpu::launch<run_passes, worker_bytes>,
    .release = cpu::release,
    .traffic = cpu::traffic<run_passes>,
    .resolved = resolved,
};

}  // namespace attnlab::v1
