// The work items of a kernel's passes. A kernel writes down once which items its passes have and
// what each does; Launch runs them on all cores, count() counts them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/shared/grid.h"

namespace attnlab::cpu {

class Runner {
 public:
  // What one item does, with fast memory of its worker and the executor that does and counts it.
  using SliceBody =
      std::function<void(const SliceTensors&, i64 block, TileCarver fast, Executor& executor)>;
  // `group`: the query heads that share a K/V head.
  using GroupBody = std::function<void(std::span<const SliceTensors> group, i64 block,
                                       TileCarver fast, Executor& executor)>;

  virtual ~Runner() = default;

  // One pass, an item for each block of each query head: grid.heads = num_heads_q. Ends when all
  // items have ended.
  virtual void slices(const Grid& grid, const SliceBody& body) = 0;
  // The same for K/V heads: grid.heads = num_heads_kv.
  virtual void groups(const Grid& grid, const GroupBody& body) = 0;
};

// Bytes that all workers' fast memory takes at the beginning of a workspace.
u64 workers_bytes(int threads, u64 worker_bytes);

// Runs the items on all cores. Starts the counts of `kernel` from zero.
class Launch final : public Runner {
 public:
  // The workspace begins with workers_bytes() of fast memory, `worker_bytes` a worker. Keeps
  // references to its arguments.
  Launch(Prepared& kernel, const Tensors& tensors, u64 worker_bytes);

  // What follows the workers' fast memory in the workspace.
  void* hbm() const;

  void slices(const Grid& grid, const SliceBody& body) override;
  void groups(const Grid& grid, const GroupBody& body) override;

 private:
  template <class Body>
  void run(const Grid& grid, const Body& body);

  Prepared& kernel_;
  const Tensors& tensors_;
  std::vector<BatchEntry> entries_;
  u64 worker_bytes_;
};

// What the passes of a problem load, store and execute. `run_passes` is called with a runner that
// takes one slice and one group for all that are equal to them; its executors count only.
Traffic count(const Problem& problem, const std::function<void(Runner&)>& run_passes);

}  // namespace attnlab::cpu
