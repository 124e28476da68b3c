#include "kernels/cpu/runner.h"

#include <cstddef>
#include <map>
#include <utility>

namespace attnlab::cpu {
namespace {

// Returns the slices of the query heads that share one K/V head.
std::vector<SliceTensors> head_group(const Problem& problem, const Shape& shape,
                                     const BatchEntry& entry, const Tensors& tensors, i64 batch,
                                     i64 head_kv) {
  const i64 sharing = problem.num_heads_q / problem.num_heads_kv;
  std::vector<SliceTensors> group;
  for (i64 head = head_kv * sharing; head < (head_kv + 1) * sharing; ++head) {
    group.emplace_back(problem, shape, entry, tensors, batch, head);
  }
  return group;
}

// Counts the items of the first slice and the first group of one batch entry.
class Counter final : public Runner {
 public:
  explicit Counter(std::vector<SliceTensors> group) : group_(std::move(group)) {}

  void slices(const WorkGrid& grid, const SliceBody& body) override {
    for (i64 block = 0; block < grid.blocks; ++block) {
      body(group_.front(), block, TileCarver(nullptr), of_a_slice_);
    }
  }

  void groups(const WorkGrid& grid, const GroupBody& body) override {
    for (i64 block = 0; block < grid.blocks; ++block) {
      body(group_, block, TileCarver(nullptr), of_the_group_);
    }
  }

  // Returns the traffic of all slices of the group.
  Traffic traffic() const {
    Traffic total = of_a_slice_.traffic();
    total *= static_cast<i64>(group_.size());
    return total += of_the_group_.traffic();
  }

 private:
  std::vector<SliceTensors> group_;
  Executor of_a_slice_{nullptr};
  Executor of_the_group_{nullptr};
};

// EqualEntries are batch entries that differ in nothing, so counting one of them is enough.
struct EqualEntries {
  i64 batch = 0;  // one of them
  i64 count = 0;
};

std::vector<EqualEntries> equal_entries(const Problem& problem) {
  std::map<std::pair<i64, i64>, EqualEntries> by_lengths;
  for (i64 b = 0; b < problem.batch; ++b) {
    EqualEntries& equal = by_lengths[{problem.queries(b), problem.keys(b)}];
    equal.batch = b;
    ++equal.count;
  }
  std::vector<EqualEntries> result;
  for (const auto& [lengths, equal] : by_lengths) result.push_back(equal);
  return result;
}

}  // namespace

u64 workers_bytes(int threads, u64 worker_bytes) {
  return round_up<u64>(static_cast<u64>(threads) * worker_bytes, 256);
}

Launch::Launch(Prepared& kernel, const Tensors& tensors, u64 worker_bytes)
    : kernel_(kernel),
      tensors_(tensors),
      entries_(make_entries(kernel.problem, tensors.block_pattern)),
      worker_bytes_(worker_bytes) {
  kernel.begin_launch();
}

void* Launch::hbm() const {
  return behind(tensors_.workspace, workers_bytes(kernel_.pool->threads(), worker_bytes_));
}

template <class Body>
void Launch::run(const WorkGrid& grid, const Body& body) {
  kernel_.pool->run(work_items(grid), [&](int worker, i64 index) {
    const WorkItem item = work_item(grid, index);
    std::byte* fast =
        static_cast<std::byte*>(tensors_.workspace) + static_cast<u64>(worker) * worker_bytes_;
    body(item, entries_[static_cast<std::size_t>(item.batch)], TileCarver(fast),
         kernel_.executors[static_cast<std::size_t>(worker)]);
  });
}

void Launch::slices(const WorkGrid& grid, const SliceBody& body) {
  run(grid,
      [&](const WorkItem& item, const BatchEntry& entry, TileCarver fast, Executor& executor) {
        const SliceTensors slice(kernel_.problem, kernel_.shape, entry, tensors_, item.batch,
                                 item.head);
        body(slice, item.block, fast, executor);
      });
}

void Launch::groups(const WorkGrid& grid, const GroupBody& body) {
  run(grid,
      [&](const WorkItem& item, const BatchEntry& entry, TileCarver fast, Executor& executor) {
        const std::vector<SliceTensors> group =
            head_group(kernel_.problem, kernel_.shape, entry, tensors_, item.batch, item.head);
        body(group, item.block, fast, executor);
      });
}

Traffic count(const Problem& problem, const std::function<void(Runner&)>& run_passes) {
  const Shape shape = make_shape(problem);
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const std::vector<BatchEntry> entries = make_entries(problem, pattern.data());
  const Tensors nowhere;
  Traffic total;
  for (const EqualEntries& equal : equal_entries(problem)) {
    const BatchEntry& entry = entries[static_cast<std::size_t>(equal.batch)];
    Counter counter(head_group(problem, shape, entry, nowhere, equal.batch, 0));
    run_passes(counter);
    Traffic of_group = counter.traffic();
    total += of_group *= equal.count * problem.num_heads_kv;
  }
  return total;
}

}  // namespace attnlab::cpu
