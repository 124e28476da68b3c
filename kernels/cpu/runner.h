// Lists the work items of a kernel's passes. A kernel writes down once which items its passes have
// and what each does; Launch runs them on all cores, count() counts them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::cpu {

class Runner {
 public:
  // A body does one item, in fast memory of its worker, by the executor that does and counts it.
  using SliceBody =
      std::function<void(const SliceTensors&, i64 block, TileCarver fast, Executor& executor)>;
  // `group` has the query heads that share a K/V head.
  using GroupBody = std::function<void(std::span<const SliceTensors> group, i64 block,
                                       TileCarver fast, Executor& executor)>;

  virtual ~Runner() = default;

  // Runs one pass, an item for each block of each query head: grid.heads = num_heads_q. Ends when
  // all items have ended.
  virtual void slices(const WorkGrid& grid, const SliceBody& body) = 0;
  // Runs one pass, an item for each block of each K/V head: grid.heads = num_heads_kv.
  virtual void groups(const WorkGrid& grid, const GroupBody& body) = 0;
};

// Returns the bytes that all workers' fast memory takes at the beginning of a workspace.
u64 workers_bytes(int threads, u64 worker_bytes);

// Runs the items on all cores. Starts the counts of `kernel` from zero.
class Launch final : public Runner {
 public:
  // The workspace begins with workers_bytes() of fast memory, `worker_bytes` a worker. Keeps
  // references to its arguments.
  Launch(Prepared& kernel, const Tensors& tensors, u64 worker_bytes);

  // Returns what follows the workers' fast memory in the workspace.
  void* hbm() const;

  void slices(const WorkGrid& grid, const SliceBody& body) override;
  void groups(const WorkGrid& grid, const GroupBody& body) override;

 private:
  template <class Body>
  void run(const WorkGrid& grid, const Body& body);

  Prepared& kernel_;
  const Tensors& tensors_;
  std::vector<BatchEntry> entries_;
  u64 worker_bytes_;
};

// Counts what a problem's passes load, store and execute. It calls `run_passes` with a runner that
// takes one slice and one group for all that are equal to them; its executors count only.
Traffic count(const Problem& problem, const std::function<void(Runner&)>& run_passes);

// Returns what lies `bytes` behind `place`; null stays null, as all places when only counting.
inline void* behind(void* place, u64 bytes) {
  return place == nullptr ? nullptr : static_cast<std::byte*>(place) + bytes;
}

// Implement Implementation::launch and traffic for a kernel that says its passes once, in
//   void run_passes(const Problem&, const Config&, const Tensors&, void* hbm, Runner&),
// and the fast memory of one worker in `u64 worker_bytes(const Problem&, const Config&)`. `hbm` is
// what follows the workers in the workspace; it and all tensors are null when only counting.
template <auto kRunPasses, auto kWorkerBytes>
void launch(PreparedKernel* prepared, const Tensors& tensors, void* /*stream*/) {
  auto& kernel = *static_cast<Prepared*>(prepared);
  Launch launch(kernel, tensors, kWorkerBytes(kernel.problem, kernel.config));
  kRunPasses(kernel.problem, kernel.config, tensors, launch.hbm(), launch);
}

template <auto kRunPasses>
Traffic traffic(const Problem& problem, const Config& config) {
  return count(problem,
               [&](Runner& runner) { kRunPasses(problem, config, Tensors{}, nullptr, runner); });
}

}  // namespace attnlab::cpu
