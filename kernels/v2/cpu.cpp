// v2 on the CPU: work items on all cores, and the same work items counted. The passes themselves
// are in cpu_forward.cpp and cpu_backward.cpp.
#include "kernels/v2/cpu.h"

#include <cstddef>
#include <iterator>
#include <vector>

#include "kernels/v2/cpu_passes.h"

namespace attnlab::v2 {
namespace {

using cpu::Executor;

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile", 128, 1, 1024},
    {"block_n", "keys of a tile", 128, 1, 1024},
    {"deterministic", "1: dQ is summed in a fixed order (backward)", 0, 0, 1},
};

Tiling tiling_of(const Config& config) {
  return {.block_m = static_cast<i32>(config.get("block_m")),
          .block_n = static_cast<i32>(config.get("block_n"))};
}

Work make_work(const Problem& problem, const Shape& shape, const Config& config) {
  return {.problem = problem,
          .shape = shape,
          .tiling = tiling_of(config),
          .dropout = make_dropout(problem.dropout, problem.seed)};
}

// Tiles of query rows: forward, and the passes before and after backward.
Grid row_grid(const Work& work) {
  return {.batch = work.problem.batch,
          .heads = work.problem.num_heads_q,
          .blocks = work.tiling.m_blocks(work.problem.seqlen_q),
          .last_block_first = work.problem.mask.right() >= 0};
}

// Tiles of keys of the K/V heads: backward. The first ones, which the most rows see under a causal
// mask, go first; so they do in the order of turns.
Grid key_grid(const Work& work) {
  return {.batch = work.problem.batch,
          .heads = work.problem.num_heads_kv,
          .blocks = work.tiling.n_blocks(work.problem.seqlen_k)};
}

// Workspace: fast memory of the workers, then the sums of dQ.
u64 worker_bytes(const Work& work) {
  cpu::TileCarver forward(nullptr), backward(nullptr);
  if (work.problem.pass != Pass::bwd) carve_forward(forward, work.tiling, work.shape.head_dim);
  if (work.problem.pass != Pass::fwd) carve_backward(backward, work.tiling, work.shape.head_dim);
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
  return {work.problem, work.shape, work.tiling.block_m, work.tiling.block_n, order};
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
        tensors_(tensors),
        entries_(cpu::make_entries(kernel.problem, tensors.block_pattern)),
        worker_bytes_(worker_bytes(kernel.work)) {}

  void run_forward() {
    for_rows([&](const Mask& mask, const cpu::SliceTensors& slice, i64 m_block,
                 cpu::TileCarver& carver, Executor& executor) {
      const ForwardMemory fast = carve_forward(carver, work().tiling, work().shape.head_dim);
      forward(work(), mask, slice, m_block, fast, executor);
    });
  }

  void run_backward() {
    cpu::DqSums& dq_sums = kernel_.dq_sums;
    dq_sums.attach(static_cast<std::byte*>(tensors_.workspace) +
                   all_workers_bytes(work(), kernel_.pool->threads()));
    for_rows([&](const Mask& mask, const cpu::SliceTensors& slice, i64 m_block,
                 cpu::TileCarver& carver, Executor& executor) {
      const BackwardMemory fast = carve_backward(carver, work().tiling, work().shape.head_dim);
      dq_sums.prepare_rows(slice, mask, m_block, row_tiles(fast), executor);
    });
    run(key_grid(work()), [&](const WorkItem& item, cpu::TileCarver& carver, Executor& executor) {
      const BackwardMemory fast = carve_backward(carver, work().tiling, work().shape.head_dim);
      const cpu::BatchEntry& entry = entries_[static_cast<std::size_t>(item.batch)];
      const auto group =
          cpu::head_group(work().problem, work().shape, entry, tensors_, item.batch, item.head);
      backward(work(), dq_sums, entry.mask, group, item.block, fast, executor);
    });
    for_rows([&](const Mask& mask, const cpu::SliceTensors& slice, i64 m_block,
                 cpu::TileCarver& carver, Executor& executor) {
      const BackwardMemory fast = carve_backward(carver, work().tiling, work().shape.head_dim);
      dq_sums.finish_rows(slice, mask, m_block, row_tiles(fast), executor);
    });
  }

 private:
  const Work& work() const { return kernel_.work; }

  template <class Body>
  void run(const Grid& grid, const Body& body) {
    kernel_.pool->run(work_items(grid), [&](int worker, i64 index) {
      cpu::TileCarver carver(static_cast<std::byte*>(tensors_.workspace) +
                             static_cast<u64>(worker) * worker_bytes_);
      body(work_item(grid, index), carver, kernel_.executors[static_cast<std::size_t>(worker)]);
    });
  }

  template <class Body>
  void for_rows(const Body& body) {
    run(row_grid(work()), [&](const WorkItem& item, cpu::TileCarver& carver, Executor& executor) {
      const cpu::BatchEntry& entry = entries_[static_cast<std::size_t>(item.batch)];
      const cpu::SliceTensors slice(kernel_.problem, work().shape, entry, tensors_, item.batch,
                                    item.head);
      body(entry.mask, slice, item.block, carver, executor);
    });
  }

  Prepared& kernel_;
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
  cpu::TileCarver dry(nullptr);
  const ForwardMemory forward_memory = carve_forward(dry, work.tiling, work.shape.head_dim);
  const BackwardMemory backward_memory = carve_backward(dry, work.tiling, work.shape.head_dim);
  cpu::DqSums dq_sums = make_dq_sums(work, cpu::DqSums::Order::any);
  const cpu::SliceTensors& slice = group.front();
  Executor rows(nullptr), keys(nullptr);
  for (i64 m_block = 0; m_block < row_grid(work).blocks; ++m_block) {
    if (work.problem.pass != Pass::bwd) {
      forward(work, entry.mask, slice, m_block, forward_memory, rows);
    }
    if (work.problem.pass != Pass::fwd) {
      dq_sums.prepare_rows(slice, entry.mask, m_block, row_tiles(backward_memory), rows);
      dq_sums.finish_rows(slice, entry.mask, m_block, row_tiles(backward_memory), rows);
    }
  }
  for (i64 n_block = 0; n_block < key_grid(work).blocks && work.problem.pass != Pass::fwd;
       ++n_block) {
    backward(work, dq_sums, entry.mask, group, n_block, backward_memory, keys);
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
    .name = "v2",
    .backend = Backend::cpu,
    .summary = "FlashAttention-2: query tiles outside, key tiles inside, one final scale",
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

}  // namespace attnlab::v2
