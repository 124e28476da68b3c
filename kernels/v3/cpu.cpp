// Implements v3 on the CPU: work items on all cores, and the same work items counted. The passes
// themselves are in cpu_forward.cpp and cpu_backward.cpp.
#include "kernels/v3/cpu.h"

#include <iterator>
#include <limits>
#include <span>

#include "kernels/v3/cpu_passes.h"

namespace attnlab::v3 {

using cpu::Executor;

StageTiles carve_stages(cpu::TileCarver& carver, i32 stages, i64 rows, i64 columns) {
  StageTiles tiles;
  for (i32 stage = 0; stage < stages; ++stage) {
    tiles[static_cast<std::size_t>(stage)] = carver.tile(rows, columns);
  }
  return tiles;
}

cpu::Tile part_of_pair(const cpu::Tile& pair, i32 consumer, i64 rows) {
  cpu::Tile part = pair.top(rows);
  if (part.data != nullptr) part.data += consumer * rows * pair.ld;
  return part;
}

namespace {

constexpr std::int64_t kTriedRows[] = {32, 64, 128};
constexpr std::int64_t kTriedKeys[] = {64, 128, 256};

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile: of each consumer forward, of a stage backward", 64, 1, 1024,
     kTriedRows},
    {"block_n", "keys of a tile: of a stage forward, of each consumer backward", 128, 1, 1024,
     kTriedKeys},
    {"stages", "stages of each ring", 2, 2, cpu::Ring::kMaxStages},
    {"deterministic", "1: a backward sums dQ in a fixed order", 0, 0, 1, {}, AxisRole::fixed_order},
    {"schedule_seed", "interleaving of the roles; 0: round robin", 0, 0,
     std::numeric_limits<i32>::max()},
};

Work make_work(const Problem& problem, const Config& config, void* saved = nullptr) {
  return {.problem = problem,
          .shape = make_shape(problem),
          .tiling = {.block_m = static_cast<i32>(config.get("block_m")),
                     .block_n = static_cast<i32>(config.get("block_n"))},
          .stages = static_cast<i32>(config.get("stages")),
          .schedule_seed = static_cast<u64>(config.get("schedule_seed")),
          .dropout = make_dropout(problem.dropout, problem.seed),
          .saved = {problem, saved}};
}

// A section fills half of a usual second-level cache.
constexpr i64 kSectionBytes = 512 << 10;

// Returns the bytes of two tensors of one head, as tiles read them.
i64 pair_bytes(const Work& work, i64 seqlen) {
  return 2 * seqlen * work.problem.head_dim * size_bytes(work.problem.dtype);
}

// Lists pairs of tiles of query rows, for the forward. Query heads that share a K/V head share its
// K and V; under a causal mask the last rows see the most keys.
WorkGrid forward_grid(const Work& work) {
  const Problem& problem = work.problem;
  const WorkGrid grid = {
      .batch = problem.batch,
      .heads = problem.num_heads_q,
      .blocks = ceil_div<i64>(work.tiling.m_blocks(problem.seqlen_q), kConsumers),
      .last_block_first = problem.mask.right() >= 0};
  return with_sections(grid, section_size(kSectionBytes, pair_bytes(work, problem.seqlen_k),
                                          problem.num_heads_q / problem.num_heads_kv));
}

// Lists pairs of tiles of keys, for the backward. Under a causal mask the first keys are seen by
// the most rows; so the long ones add to dQ first, too.
WorkGrid backward_grid(const Work& work) {
  const Problem& problem = work.problem;
  const i64 sharing = problem.num_heads_q / problem.num_heads_kv;
  const WorkGrid grid = {
      .batch = problem.batch,
      .heads = problem.num_heads_kv,
      .blocks = ceil_div<i64>(work.tiling.n_blocks(problem.seqlen_k), kConsumers)};
  return with_sections(
      grid, section_size(kSectionBytes, sharing * pair_bytes(work, problem.seqlen_q), 1));
}

// Lists tiles of query rows, for the passes before and after the backward.
WorkGrid row_grid(const Work& work) {
  return {.batch = work.problem.batch,
          .heads = work.problem.num_heads_q,
          .blocks = work.tiling.m_blocks(work.problem.seqlen_q)};
}

// Counts the workspace: fast memory of the workers, then the sums of dQ.
u64 worker_bytes(const Problem& problem, const Config& config) {
  const Work work = make_work(problem, config);
  cpu::TileCarver forward(nullptr), backward(nullptr);
  if (problem.runs_forward()) carve_forward(forward, work);
  if (problem.runs_backward()) carve_backward(backward, work);
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
          .item_keys = kConsumers * work.tiling.block_n,
          .order = config.get("deterministic") != 0 ? cpu::DqSums::Order::by_keys
                                                    : cpu::DqSums::Order::any};
}

// A role that breaks the protocol is a mistake in this folder: noexcept ends the process with the
// fault's sentence, before anybody takes the outputs for results.
void run_forward(const Work& work, cpu::Runner& runner) {
  runner.slices(forward_grid(work), [&](const cpu::SliceTensors& slice, i64 m_pair,
                                        cpu::TileCarver carver, Executor& executor) noexcept {
    forward(work, slice, m_pair, carve_forward(carver, work), executor);
  });
}

void run_backward(const Work& work, cpu::DqSums& dq_sums, cpu::Runner& runner) {
  const auto tiles_of = [&](cpu::TileCarver carver) {
    return row_tiles(carve_backward(carver, work));
  };
  dq_sums.run_around(row_grid(work), runner, tiles_of, [&] {
    runner.groups(backward_grid(work), [&](std::span<const cpu::SliceTensors> group, i64 n_pair,
                                           cpu::TileCarver carver, Executor& executor) noexcept {
      backward(work, dq_sums, group, n_pair, carve_backward(carver, work), executor);
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
    .name = "v3",
    .backend = Backend::cpu,
    .summary = "FlashAttention-3: producer and consumer roles over rings of stages, ping-pong",
    .axes = kAxes,
    .num_axes = static_cast<int>(std::size(kAxes)),
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = cpu::prepare,
    .launch = cpu::launch<run_passes, worker_bytes>,
    .release = cpu::release,
    .traffic = cpu::traffic<run_passes>,
    .has_e4m3 = true,  // promoted: sums are in fp32
};

}  // namespace attnlab::v3
