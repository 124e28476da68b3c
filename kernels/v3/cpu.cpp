// v3 on the CPU: work items on all cores, and the same work items counted. The passes themselves
// are in cpu_forward.cpp and cpu_backward.cpp.
#include "kernels/v3/cpu.h"

#include <cstddef>
#include <iterator>
#include <limits>
#include <vector>

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

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile: of each consumer forward, of a stage backward", 64, 1, 1024},
    {"block_n", "keys of a tile: of a stage forward, of each consumer backward", 128, 1, 1024},
    {"stages", "stages of each ring", 2, 2, cpu::Ring::kMaxStages},
    {"deterministic", "1: dQ is summed in a fixed order (backward)", 0, 0, 1},
    {"schedule_seed", "interleaving of the roles; 0: round robin", 0, 0,
     std::numeric_limits<i32>::max()},
};

Work make_work(const Problem& problem, const Shape& shape, const Config& config) {
  return {.problem = problem,
          .shape = shape,
          .tiling = {.block_m = static_cast<i32>(config.get("block_m")),
                     .block_n = static_cast<i32>(config.get("block_n"))},
          .stages = static_cast<i32>(config.get("stages")),
          .schedule_seed = static_cast<u64>(config.get("schedule_seed")),
          .dropout = make_dropout(problem.dropout, problem.seed)};
}

// Half of a usual second-level cache.
constexpr i64 kSectionBytes = 512 << 10;

// Bytes of two tensors of one head, as tiles read them.
i64 pair_bytes(const Work& work, i64 seqlen) {
  return 2 * seqlen * work.problem.head_dim * size_bytes(work.problem.dtype);
}

// Pairs of tiles of query rows: forward. Query heads that share a K/V head share its K and V; under
// a causal mask the last rows see the most keys.
Grid forward_grid(const Work& work) {
  const Problem& problem = work.problem;
  return {.batch = problem.batch,
          .heads = problem.num_heads_q,
          .blocks = ceil_div<i64>(work.tiling.m_blocks(problem.seqlen_q), kConsumers),
          .section = section_size(kSectionBytes, pair_bytes(work, problem.seqlen_k),
                                  problem.num_heads_q / problem.num_heads_kv),
          .last_block_first = problem.mask.right() >= 0};
}

// Pairs of tiles of keys: backward. Under a causal mask the first keys are seen by the most rows;
// so the long ones come first in the order of turns at dQ, too.
Grid backward_grid(const Work& work) {
  const Problem& problem = work.problem;
  const i64 sharing = problem.num_heads_q / problem.num_heads_kv;
  return {.batch = problem.batch,
          .heads = problem.num_heads_kv,
          .blocks = ceil_div<i64>(work.tiling.n_blocks(problem.seqlen_k), kConsumers),
          .section = section_size(kSectionBytes, sharing * pair_bytes(work, problem.seqlen_q), 1)};
}

// Tiles of query rows: the passes before and after backward.
Grid row_grid(const Work& work) {
  return {.batch = work.problem.batch,
          .heads = work.problem.num_heads_q,
          .blocks = work.tiling.m_blocks(work.problem.seqlen_q)};
}

// Workspace: fast memory of the workers, then the sums of dQ.
u64 worker_bytes(const Work& work) {
  cpu::TileCarver forward(nullptr), backward(nullptr);
  if (work.problem.pass != Pass::bwd) carve_forward(forward, work);
  if (work.problem.pass != Pass::fwd) carve_backward(backward, work);
  return max(forward.bytes(), backward.bytes());
}

u64 all_workers_bytes(const Work& work, int threads) {
  return round_up<u64>(static_cast<u64>(threads) * worker_bytes(work), 256);
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  const Shape shape = make_shape(problem);
  const u64 workers = all_workers_bytes(make_work(problem, shape, config), device.threads);
  return problem.pass == Pass::fwd ? workers : workers + cpu::DqSums::bytes(problem);
}

std::uint64_t saved_bytes(const Problem& /*problem*/, const Config& /*config*/) { return 0; }

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  return cpu::unsupported(problem, device);
}

cpu::DqSums make_dq_sums(const Work& work, cpu::DqSums::Order order) {
  return {work.problem, work.shape, work.tiling.block_m, kConsumers * work.tiling.block_n, order};
}

struct Prepared : cpu::Prepared {
  Prepared(const Problem& p, const Config& c, const Device& device)
      : cpu::Prepared(p, c, device),
        work(make_work(problem, shape, config)),
        dq_sums(make_dq_sums(work, config.get("deterministic") != 0 ? cpu::DqSums::Order::by_keys
                                                                    : cpu::DqSums::Order::any)) {}
  Work work;
  cpu::DqSums dq_sums;
};

PreparedKernel* prepare(const Problem& problem, const Config& config, const Device& device) {
  return new Prepared(problem, config, device);
}

void release(PreparedKernel* prepared) { delete static_cast<Prepared*>(prepared); }

// One launch: the work items of its passes, each handed to the worker that comes for it.
class Launch {
 public:
  Launch(Prepared& kernel, const Tensors& tensors)
      : kernel_(kernel),
        work_(kernel.work),
        tensors_(tensors),
        entries_(cpu::make_entries(kernel.problem, tensors.block_pattern)),
        worker_bytes_(worker_bytes(kernel.work)) {}

  void run_forward() {
    run(forward_grid(work_),
        [&](const WorkItem& item, cpu::TileCarver& carver, Executor& executor) {
          const cpu::BatchEntry& entry = entries_[static_cast<std::size_t>(item.batch)];
          const cpu::SliceTensors slice(work_.problem, work_.shape, entry, tensors_, item.batch,
                                        item.head);
          forward(work_, entry.mask, slice, item.block, carve_forward(carver, work_), executor);
        });
  }

  void run_backward() {
    cpu::DqSums& dq_sums = kernel_.dq_sums;
    dq_sums.attach(static_cast<std::byte*>(tensors_.workspace) +
                   all_workers_bytes(work_, kernel_.pool->threads()));
    for_rows([&](const Mask& mask, const cpu::SliceTensors& slice, i64 m_block,
                 const BackwardMemory& fast, Executor& executor) {
      dq_sums.prepare_rows(slice, mask, m_block, row_tiles(fast), executor);
    });
    run(backward_grid(work_),
        [&](const WorkItem& item, cpu::TileCarver& carver, Executor& executor) {
          const cpu::BatchEntry& entry = entries_[static_cast<std::size_t>(item.batch)];
          const auto group =
              cpu::head_group(work_.problem, work_.shape, entry, tensors_, item.batch, item.head);
          backward(work_, dq_sums, entry.mask, group, item.block, carve_backward(carver, work_),
                   executor);
        });
    for_rows([&](const Mask& mask, const cpu::SliceTensors& slice, i64 m_block,
                 const BackwardMemory& fast, Executor& executor) {
      dq_sums.finish_rows(slice, mask, m_block, row_tiles(fast), executor);
    });
  }

 private:
  // A role that breaks the protocol is a mistake in this folder: noexcept ends the process with the
  // fault's sentence, before anybody takes the outputs for results.
  template <class Body>
  void run(const Grid& grid, const Body& body) {
    kernel_.pool->run(work_items(grid), [&](int worker, i64 index) noexcept {
      cpu::TileCarver carver(static_cast<std::byte*>(tensors_.workspace) +
                             static_cast<u64>(worker) * worker_bytes_);
      body(work_item(grid, index), carver, kernel_.executors[static_cast<std::size_t>(worker)]);
    });
  }

  template <class Body>
  void for_rows(const Body& body) {
    run(row_grid(work_), [&](const WorkItem& item, cpu::TileCarver& carver, Executor& executor) {
      const cpu::BatchEntry& entry = entries_[static_cast<std::size_t>(item.batch)];
      const cpu::SliceTensors slice(work_.problem, work_.shape, entry, tensors_, item.batch,
                                    item.head);
      body(entry.mask, slice, item.block, carve_backward(carver, work_), executor);
    });
  }

  Prepared& kernel_;
  const Work& work_;
  const Tensors& tensors_;
  std::vector<cpu::BatchEntry> entries_;
  u64 worker_bytes_;
};

void launch(PreparedKernel* prepared, const Tensors& tensors, void* /*stream*/) {
  auto& kernel = *static_cast<Prepared*>(prepared);
  kernel.begin_launch();
  Launch work(kernel, tensors);
  if (kernel.problem.pass != Pass::bwd) work.run_forward();
  if (kernel.problem.pass != Pass::fwd) work.run_backward();
}

// The work items of one K/V head of an entry, counted.
Traffic count_group(const Work& work, const cpu::BatchEntry& entry, i64 batch) {
  const Tensors nowhere;
  const auto group = cpu::head_group(work.problem, work.shape, entry, nowhere, batch, 0);
  const cpu::SliceTensors& slice = group.front();
  cpu::TileCarver dry(nullptr);
  const ForwardMemory forward_memory = carve_forward(dry, work);
  const BackwardMemory backward_memory = carve_backward(dry, work);
  cpu::DqSums dq_sums = make_dq_sums(work, cpu::DqSums::Order::any);
  Executor rows(nullptr), keys(nullptr);
  if (work.problem.pass != Pass::bwd) {
    for (i64 pair = 0; pair < forward_grid(work).blocks; ++pair) {
      forward(work, entry.mask, slice, pair, forward_memory, rows);
    }
  }
  if (work.problem.pass != Pass::fwd) {
    for (i64 m_block = 0; m_block < row_grid(work).blocks; ++m_block) {
      dq_sums.prepare_rows(slice, entry.mask, m_block, row_tiles(backward_memory), rows);
      dq_sums.finish_rows(slice, entry.mask, m_block, row_tiles(backward_memory), rows);
    }
    for (i64 pair = 0; pair < backward_grid(work).blocks; ++pair) {
      backward(work, dq_sums, entry.mask, group, pair, backward_memory, keys);
    }
  }
  Traffic total = rows.traffic();
  total *= static_cast<i64>(group.size());
  return total += keys.traffic();
}

Traffic traffic(const Problem& problem, const Config& config) {
  const Shape shape = make_shape(problem);
  const Work work = make_work(problem, shape, config);
  return cpu::count_groups(problem, [&](const cpu::BatchEntry& entry, i64 batch) {
    return count_group(work, entry, batch);
  });
}

}  // namespace

constexpr Implementation kCpu = {
    .api_version = kApiVersion,
    .name = "v3",
    .backend = Backend::cpu,
    .summary = "FlashAttention-3: producer and consumer roles over rings of stages, by turns",
    .axes = kAxes,
    .num_axes = static_cast<int>(std::size(kAxes)),
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = prepare,
    .launch = launch,
    .release = release,
    .traffic = traffic,
};

}  // namespace attnlab::v3
