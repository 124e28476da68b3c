// v1 on the CPU: FlashAttention as first published (2022).
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

#include <cstddef>
#include <iterator>
#include <vector>

#include "kernels/v1/cpu_passes.h"

namespace attnlab::v1 {
namespace {

using cpu::Executor;

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile; 0: min(ceil(sram / 4d), d)", 0, 0, 1024},
    {"block_n", "keys of a tile; 0: ceil(sram / 4d)", 0, 0, 1024},
    {"sram", "M, on-chip elements that block sizes of 0 come from; 49152: 192 KiB of fp32 (A100)",
     kDefaultSram, 64, 1 << 20},
};

Work make_work(const Problem& problem, const Shape& shape, const Config& config) {
  return {.problem = problem,
          .shape = shape,
          .tiling = make_tiling(config.get("sram"), problem.head_dim,
                                {config.get("block_m"), config.get("block_n")}),
          .dropout = make_dropout(problem.dropout, problem.seed)};
}

// m, or l.
u64 statistic_bytes(const Problem& problem) {
  return round_up<u64>(static_cast<u64>(problem.elements_lse()) * sizeof(float), 256);
}

// Algorithm 4 computes P again from m and l.
std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  return problem.pass == Pass::fwd ? 0 : 2 * statistic_bytes(problem);
}

// The workspace: fast memory of the workers, then what lives in HBM. Bytes from its beginning.
struct WorkspaceMap {
  u64 worker_bytes = 0;  // of each worker
  u64 statistics = 0;    // m and l, where no backward follows that they are saved for
  u64 sums = 0;          // HbmState::sums
  u64 end = 0;
};

WorkspaceMap map_workspace(const Work& work, int threads) {
  const Problem& problem = work.problem;
  cpu::TileCarver forward(nullptr), backward(nullptr);
  if (problem.pass != Pass::bwd) carve_forward(forward, work.tiling, problem.head_dim);
  if (problem.pass != Pass::fwd) carve_backward(backward, work.tiling, problem.head_dim);
  const i64 sums = problem.dtype == Dtype::f32 ? 0 : problem.elements_lse() * problem.head_dim;
  WorkspaceMap map;
  map.worker_bytes = max(forward.bytes(), backward.bytes());
  map.statistics = round_up<u64>(static_cast<u64>(threads) * map.worker_bytes, 256);
  map.sums = map.statistics + (problem.pass == Pass::fwd ? 2 * statistic_bytes(problem) : 0);
  map.end = map.sums + static_cast<u64>(sums) * sizeof(float);
  return map;
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  const Shape shape = make_shape(problem);
  return map_workspace(make_work(problem, shape, config), device.threads).end;
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  return cpu::unsupported(problem, device);
}

// One launch: a work item for each (batch, head) of its passes.
class Launch {
 public:
  Launch(cpu::Prepared& kernel, const Tensors& tensors)
      : kernel_(kernel),
        tensors_(tensors),
        work_(make_work(kernel.problem, kernel.shape, kernel.config)),
        map_(map_workspace(work_, kernel.pool->threads())),
        workspace_(static_cast<std::byte*>(tensors.workspace)),
        entries_(cpu::make_entries(kernel.problem, tensors.block_pattern)) {
    std::byte* statistics = tensors.saved != nullptr ? static_cast<std::byte*>(tensors.saved)
                                                     : workspace_ + map_.statistics;
    state_.m = reinterpret_cast<float*>(statistics);
    state_.l = reinterpret_cast<float*>(statistics + statistic_bytes(kernel.problem));
    state_.sums = reinterpret_cast<float*>(workspace_ + map_.sums);
  }

  void run_forward() {
    run(work_.problem.num_heads_q, [&](i64 batch, i64 head, cpu::TileCarver& carver,
                                       const cpu::BatchEntry& entry, Executor& executor) {
      const ForwardMemory fast = carve_forward(carver, work_.tiling, work_.shape.head_dim);
      const cpu::SliceTensors slice(work_.problem, work_.shape, entry, tensors_, batch, head);
      forward(work_, state_, entry.mask, slice, fast, executor);
    });
  }

  void run_backward() {
    run(work_.problem.num_heads_kv, [&](i64 batch, i64 head, cpu::TileCarver& carver,
                                        const cpu::BatchEntry& entry, Executor& executor) {
      const BackwardMemory fast = carve_backward(carver, work_.tiling, work_.shape.head_dim);
      const auto group = cpu::head_group(work_.problem, work_.shape, entry, tensors_, batch, head);
      backward(work_, state_, entry.mask, group, fast, executor);
    });
  }

 private:
  template <class Body>
  void run(i64 heads, const Body& body) {
    kernel_.pool->run(work_.problem.batch * heads, [&](int worker, i64 index) {
      cpu::TileCarver carver(workspace_ + static_cast<u64>(worker) * map_.worker_bytes);
      const i64 batch = index / heads;
      body(batch, index % heads, carver, entries_[static_cast<std::size_t>(batch)],
           kernel_.executors[static_cast<std::size_t>(worker)]);
    });
  }

  cpu::Prepared& kernel_;
  const Tensors& tensors_;
  const Work work_;
  const WorkspaceMap map_;
  std::byte* const workspace_;
  const std::vector<cpu::BatchEntry> entries_;
  HbmState state_;
};

void launch(PreparedKernel* prepared, const Tensors& tensors, void* /*stream*/) {
  auto& kernel = *static_cast<cpu::Prepared*>(prepared);
  kernel.begin_launch();
  Launch work(kernel, tensors);
  if (kernel.problem.pass != Pass::bwd) work.run_forward();
  if (kernel.problem.pass != Pass::fwd) work.run_backward();
}

// One K/V head of an entry and the query heads that share it, counted.
Traffic count_group(const Work& work, const cpu::BatchEntry& entry, i64 batch) {
  const Tensors nowhere;
  const auto group = cpu::head_group(work.problem, work.shape, entry, nowhere, batch, 0);
  cpu::TileCarver dry(nullptr);
  const ForwardMemory forward_memory = carve_forward(dry, work.tiling, work.shape.head_dim);
  const BackwardMemory backward_memory = carve_backward(dry, work.tiling, work.shape.head_dim);
  Traffic total;
  if (work.problem.pass != Pass::bwd) {
    Executor one_head(nullptr);
    forward(work, {}, entry.mask, group.front(), forward_memory, one_head);
    total += one_head.traffic();
    total *= static_cast<i64>(group.size());
  }
  if (work.problem.pass != Pass::fwd) {
    Executor whole_group(nullptr);
    backward(work, {}, entry.mask, group, backward_memory, whole_group);
    total += whole_group.traffic();
  }
  return total;
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
    .name = "v1",
    .backend = Backend::cpu,
    .summary = "FlashAttention (2022): key tiles outside, query tiles inside; O, l, m in HBM",
    .axes = kAxes,
    .num_axes = static_cast<int>(std::size(kAxes)),
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = cpu::prepare,
    .launch = launch,
    .release = cpu::release,
    .traffic = traffic,
};

}  // namespace attnlab::v1
