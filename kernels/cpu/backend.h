// What every CPU implementation shares: the device, the answer to what is unsupported, and the
// prepared state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/cpu/executor.h"
#include "kernels/cpu/thread_pool.h"

namespace attnlab::cpu {

// This machine's processors: all threads the process may use, the best instruction set, the memory.
Device cpu_device();

// The reason why no CPU kernel runs this yet, or empty.
std::string unsupported(const Problem& problem, const Device& device);

// The masks of the batch entries, over the block pattern of the tensors (null if there is none).
std::vector<Mask> make_masks(const Problem& problem, const std::uint8_t* block_pattern);

// The state of a prepared CPU kernel: nothing is compiled, so it only remembers and looks up.
struct Prepared : PreparedKernel {
  Prepared(const Problem& problem, const Config& config, const Device& device);

  // Resets the counts of the workers' executors.
  void begin_launch();
  // What the last launch loaded, stored and executed.
  Traffic executed() const;

  Problem problem;
  Shape shape;
  Config config;
  const TileOps* ops;
  std::shared_ptr<ThreadPool> pool;
  std::vector<Executor> executors;  // one a worker
};

PreparedKernel* prepare(const Problem& problem, const Config& config, const Device& device);
void release(PreparedKernel* prepared);

// Batch entries whose traffic is the same, so that counting one of them is enough.
struct EntryGroup {
  i64 entry = 0;  // one of them
  i64 count = 0;
};
std::vector<EntryGroup> equal_entries(const Problem& problem);

}  // namespace attnlab::cpu
