// Implements v2 on the CPU: work items on all cores, and the same work items counted. The passes
// themselves are in cpu_forward.cpp and cpu_backward.cpp.
#include "kernels/v2/cpu.h"

#include <iterator>
#include <span>

#include "kernels/v2/cpu_passes.h"

namespace attnlab::v2 {
namespace {

using cpu::Executor;

constexpr std::int64_t kTriedRows[] = {32, 64, 128, 256};
constexpr std::int64_t kTriedKeys[] = {64, 128, 256};

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile", 128, 1, 1024, kTriedRows},
    {"block_n", "keys of a tile", 128, 1, 1024, kTriedKeys},
    {"deterministic", "1: a backward sums dQ in a fixed order", 0, 0, 1, {}, AxisRole::fixed_order},
};

Work make_work(const Problem& problem, const Config& config, void* saved = nullptr) {
  return {.problem = problem,
          .shape = make_shape(problem),
          .tiling = {.block_m = static_cast<i32>(config.get("block_m")),
                     .block_n = static_cast<i32>(config.get("block_n"))},
          .dropout = make_dropout(problem.dropout, problem.seed),
          .saved = {problem, saved}};
}

// Counts the workspace: fast memory of the workers, then the sums of dQ.
u64 worker_bytes(const Problem& problem, const Config& config) {
  const Work work = make_work(problem, config);
  cpu::TileCarver forward(nullptr), backward(nullptr);
  if (problem.runs_forward()) carve_forward(forward, work.tiling, work.shape.head_dim);
  if (problem.runs_backward()) carve_backward(backward, work.tiling, work.shape.head_dim);
  return max(forward.bytes(), backward.bytes());
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  const u64 workers = cpu::workers_bytes(device.threads, worker_bytes(problem, config));
  return problem.pass == Pass::fwd ? workers : workers + cpu::DqSums::bytes(problem);
}

std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  return cpu::SavedSoftmax::bytes(problem);
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  return cpu::unsupported(problem, device);
}

cpu::DqSums::Options dq_options(const Work& work, const Config& config) {
  return {.block_m = work.tiling.block_m,
          .item_keys = work.tiling.block_n,
          .order = config.get("deterministic") != 0 ? cpu::DqSums::Order::by_keys
                                                    : cpu::DqSums::Order::any};
}

void run_forward(const Work& work, cpu::Runner& runner) {
  const bool is_causal = work.problem.mask.right() >= 0;
  runner.slices(
      row_grid(work.shape, work.tiling, is_causal),
      [&](const cpu::SliceTensors& slice, i64 m_block, cpu::TileCarver carver, Executor& executor) {
        const auto fast = carve_forward(carver, work.tiling, work.shape.head_dim);
        forward(work, slice, m_block, fast, executor);
      });
}

void run_backward(const Work& work, cpu::DqSums& dq_sums, cpu::Runner& runner) {
  const auto carve = [&](cpu::TileCarver carver) {
    return carve_backward(carver, work.tiling, work.shape.head_dim);
  };
  const auto tiles_of = [&](cpu::TileCarver carver) { return row_tiles(carve(carver)); };
  dq_sums.run_around(row_grid(work.shape, work.tiling, false), runner, tiles_of, [&] {
    runner.groups(key_grid(work.shape, work.tiling, false),
                  [&](std::span<const cpu::SliceTensors> group, i64 n_block, cpu::TileCarver carver,
                      Executor& executor) {
                    backward(work, dq_sums, group, n_block, carve(carver), executor);
                  });
  });
}

void run_passes(const Problem& problem, const Config& config, const Tensors& tensors, void* hbm,
                cpu::Runner& runner) {
  const Work work = make_work(problem, config, tensors.saved);
  cpu::run_passes<run_forward, run_backward>(problem, work, dq_options(work, config), hbm, runner);
}

}  // namespace

constexpr Implementation kCpu = {
    .api_version = kApiVersion,
    .name = "v2",
    .backend = Backend::cpu,
    .summary = "FlashAttention-2: query tiles outside, key tiles inside, one final scale",
    .axes = kAxes,
    .num_axes = static_cast<int>(std::size(kAxes)),
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = cpu::prepare,
    .launch = cpu::launch<run_passes, worker_bytes>,
    .release = cpu::release,
    .traffic = cpu::traffic<run_passes>,
};

}  // namespace attnlab::v2
