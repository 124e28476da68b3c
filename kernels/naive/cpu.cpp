// naive on the CPU: the baseline, what a framework does without a fused kernel. The attention
// matrix is written to HBM and read back by every pass (schedule.h lists them); the passes
// themselves are in cpu_passes.cpp and cpu_products.cpp.
#include "kernels/naive/cpu.h"

#include <cstddef>
#include <vector>

#include "kernels/naive/cpu_passes.h"

namespace attnlab::naive {
namespace {

using cpu::Executor;
using cpu::SliceTensors;

// The passes in order; `runner` runs each, or counts it.
template <class Runner>
void forward(const Work& work, Runner& runner) {
  const bool is_16_bit = work.problem.dtype != Dtype::f32;
  runner.product(ScoreProduct{.left = &SliceTensors::q,
                              .right = &SliceTensors::k,
                              .scale = work.shape.softmax_scale,
                              .result = work.s,
                              .epilogue = is_16_bit ? Epilogue::part_lse : Epilogue::none});
  if (!work.problem.mask.is_none()) runner.rows(mask_rows);
  runner.rows(softmax_rows);
  if (work.dropout.threshold > 0) runner.rows(dropout_rows);
  runner.product(
      RowProduct{.left = work.dropped_p, .right = &SliceTensors::v, .result = &SliceTensors::o});
}

template <class Runner>
void backward(const Work& work, Runner& runner) {
  runner.product(
      ScoreProduct{.left = &SliceTensors::dout, .right = &SliceTensors::v, .result = work.dp});
  if (work.dropout.threshold > 0) runner.rows(dropout_backward_rows);
  runner.rows(softmax_backward_rows);
  if (work.dropout.threshold > 0) runner.rows(dropout_rows);
  runner.product(RowProduct{.left = work.ds,
                            .right = &SliceTensors::k,
                            .scale = work.shape.softmax_scale,
                            .result = &SliceTensors::dq});
  runner.product(KeyProduct{.left = work.ds,
                            .right = &SliceTensors::q,
                            .scale = work.shape.softmax_scale,
                            .result = &SliceTensors::dk});
  runner.product(KeyProduct{
      .left = work.dropped_p, .right = &SliceTensors::dout, .result = &SliceTensors::dv});
}

// The slices of the query heads that share one K/V head.
std::vector<Slice> head_group(const Work& work, i64 batch, i64 head_kv) {
  const i64 sharing = work.shape.num_heads_q / work.shape.num_heads_kv;
  std::vector<Slice> group;
  for (i64 head = head_kv * sharing; head < (head_kv + 1) * sharing; ++head) {
    group.emplace_back(work, batch, head);
  }
  return group;
}

u64 matrix_bytes(const Problem& problem) {
  return static_cast<u64>(matrix_elements(make_shape(problem)) * size_bytes(problem.dtype));
}

bool drops(const Problem& problem) {
  return make_dropout(problem.dropout, problem.seed).threshold > 0;
}

// Bytes of the parts of the workspace. Two matrices at most are alive beside the saved P: a pass
// may write where a matrix lies that nobody reads again.
struct Workspace {
  u64 first = 0;     // S, then Pd; in backward dP, then dS
  u64 second = 0;    // P that is not saved; in backward Pd
  u64 part_lse = 0;  // see Epilogue
  u64 worker = 0;    // fast memory of one worker
};

Workspace make_workspace(const Problem& problem) {
  const Shape shape = make_shape(problem);
  const u64 matrix = round_up<u64>(matrix_bytes(problem), 256);
  const bool has_part_lse = problem.pass != Pass::bwd && problem.dtype != Dtype::f32;
  const i64 parts = has_part_lse ? problem.elements_lse() * key_panels(problem.seqlen_k) : 0;
  cpu::TileCarver carver(nullptr);
  carve(carver, shape);
  return {.first = matrix,
          .second = problem.pass == Pass::fwd || drops(problem) ? matrix : 0,
          .part_lse = round_up<u64>(static_cast<u64>(parts) * sizeof(float), 256),
          .worker = carver.bytes()};
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& /*config*/,
                              const Device& device) {
  const Workspace sizes = make_workspace(problem);
  return sizes.first + sizes.second + sizes.part_lse +
         static_cast<u64>(device.threads) * sizes.worker;
}

// P.
std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  return problem.pass == Pass::fwd ? 0 : matrix_bytes(problem);
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  return cpu::unsupported(problem, device);
}

// Runs each pass over the panels of all slices, on all cores.
class Launch {
 public:
  Launch(cpu::Prepared& kernel, const Tensors& tensors)
      : kernel_(kernel),
        entries_(cpu::make_entries(kernel.problem, tensors.block_pattern)),
        work_{.problem = kernel.problem,
              .shape = kernel.shape,
              .entries = entries_,
              .tensors = tensors,
              .dropout = kernel.dropout},
        sizes_(make_workspace(kernel.problem)) {
    std::byte* first = static_cast<std::byte*>(tensors.workspace);
    std::byte* second = first + sizes_.first;
    std::byte* part_lse = second + sizes_.second;
    workers_ = part_lse + sizes_.part_lse;
    work_.s.data = work_.dp.data = work_.ds.data = first;
    work_.p.data = tensors.saved != nullptr ? tensors.saved : second;
    work_.part_lse = reinterpret_cast<float*>(part_lse);
  }

  void run_forward() {
    work_.dropped_p.data = work_.dropout.threshold > 0 ? work_.s.data : work_.p.data;
    forward(work_, *this);
  }

  void run_backward() {
    std::byte* second = static_cast<std::byte*>(work_.tensors.workspace) + sizes_.first;
    work_.dropped_p.data = work_.dropout.threshold > 0 ? second : work_.p.data;
    backward(work_, *this);
  }

  void rows(ElementWisePass pass) {
    for_rows([&](const Slice& slice, Range rows, const FastMemory& fast, int worker) {
      pass(work_, slice, rows, fast, kernel_.executors[static_cast<std::size_t>(worker)]);
    });
  }

  void product(const ScoreProduct& product) {
    count_slices(product);
    run({.heads = work_.shape.num_heads_q, .extent = work_.shape.seqlen_k, .panel = kPanelKeys},
        [&](const PanelItem& item, const FastMemory& fast, int /*worker*/) {
          const Slice slice(work_, item.batch, item.head);
          const Range keys = intersect(item.range, slice.keys());
          Executor library(kernel_.ops);
          if (!keys.empty()) naive::run(product, work_, slice, keys, fast, library);
        });
  }

  void product(const RowProduct& product) {
    count_slices(product);
    for_rows([&](const Slice& slice, Range rows, const FastMemory& fast, int /*worker*/) {
      Executor library(kernel_.ops);
      naive::run(product, slice, rows, fast, library);
    });
  }

  void product(const KeyProduct& product) {
    for (i64 batch = 0; batch < work_.shape.batch; ++batch) {
      for (i64 head = 0; head < work_.shape.num_heads_kv; ++head) {
        count(product, head_group(work_, batch, head), kernel_.executors.front());
      }
    }
    run({.heads = work_.shape.num_heads_kv, .extent = work_.shape.seqlen_k, .panel = kPanelKeys},
        [&](const PanelItem& item, const FastMemory& fast, int /*worker*/) {
          const std::vector<Slice> group = head_group(work_, item.batch, item.head);
          const Range keys = intersect(item.range, group.front().keys());
          Executor library(kernel_.ops);
          if (!keys.empty()) naive::run(product, group, keys, fast, library);
        });
  }

 private:
  template <class Product>
  void count_slices(const Product& product) {
    for (i64 batch = 0; batch < work_.shape.batch; ++batch) {
      for (i64 head = 0; head < work_.shape.num_heads_q; ++head) {
        count(product, Slice(work_, batch, head), kernel_.executors.front());
      }
    }
  }

  // body(panel, fast memory, worker)
  template <class Body>
  void run(PassSchedule schedule, const Body& body) {
    schedule.batch = work_.shape.batch;
    kernel_.pool->run(work_items(schedule), [&](int worker, i64 index) {
      cpu::TileCarver carver(workers_ + static_cast<u64>(worker) * sizes_.worker);
      body(work_item(schedule, index), carve(carver, work_.shape), worker);
    });
  }

  // body(slice, rows of it, fast memory, worker)
  template <class Body>
  void for_rows(const Body& body) {
    run({.heads = work_.shape.num_heads_q, .extent = work_.shape.seqlen_q, .panel = kPanelRows},
        [&](const PanelItem& item, const FastMemory& fast, int worker) {
          const Slice slice(work_, item.batch, item.head);
          const Range rows = intersect(item.range, slice.rows());
          if (!rows.empty()) body(slice, rows, fast, worker);
        });
  }

  cpu::Prepared& kernel_;
  std::vector<cpu::BatchEntry> entries_;
  Work work_;
  Workspace sizes_;
  std::byte* workers_ = nullptr;
};

void launch(PreparedKernel* prepared, const Tensors& tensors, void* /*stream*/) {
  auto& kernel = *static_cast<cpu::Prepared*>(prepared);
  kernel.begin_launch();
  Launch work(kernel, tensors);
  if (kernel.problem.pass != Pass::bwd) work.run_forward();
  if (kernel.problem.pass != Pass::fwd) work.run_backward();
}

// Counts each pass over the query heads of one K/V head.
class Count {
 public:
  Count(const Work& work, i64 batch) : work_(work), group_(head_group(work, batch, 0)) {
    cpu::TileCarver dry(nullptr);
    fast_ = carve(dry, work.shape);
  }

  void rows(ElementWisePass pass) {
    pass(work_, group_.front(), group_.front().rows(), fast_, of_a_slice_);
  }
  void product(const ScoreProduct& product) { count(product, group_.front(), of_a_slice_); }
  void product(const RowProduct& product) { count(product, group_.front(), of_a_slice_); }
  void product(const KeyProduct& product) { count(product, group_, of_the_group_); }

  Traffic traffic() const {
    Traffic total = of_a_slice_.traffic();
    total *= static_cast<i64>(group_.size());
    return total += of_the_group_.traffic();
  }

 private:
  const Work& work_;
  std::vector<Slice> group_;
  FastMemory fast_;
  Executor of_a_slice_{nullptr};
  Executor of_the_group_{nullptr};
};

Traffic traffic(const Problem& problem, const Config& /*config*/) {
  const Shape shape = make_shape(problem);
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const std::vector<cpu::BatchEntry> entries = cpu::make_entries(problem, pattern.data());
  const Tensors nowhere;
  const Work work = {.problem = problem,
                     .shape = shape,
                     .entries = entries,
                     .tensors = nowhere,
                     .dropout = make_dropout(problem.dropout, problem.seed)};
  Traffic total;
  for (const cpu::EntryGroup& equal : cpu::equal_entries(problem)) {
    Count counter(work, equal.entry);
    if (problem.pass != Pass::bwd) forward(work, counter);
    if (problem.pass != Pass::fwd) backward(work, counter);
    Traffic entry = counter.traffic();
    total += entry *= equal.count * problem.num_heads_kv;
  }
  return total;
}

}  // namespace

constexpr Implementation kCpu = {
    .api_version = kApiVersion,
    .name = "naive",
    .backend = Backend::cpu,
    .summary =
        "materialized attention: S and P in memory, one pass each for QK^T, mask, softmax, PV",
    .axes = nullptr,
    .num_axes = 0,
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = cpu::prepare,
    .launch = launch,
    .release = cpu::release,
    .traffic = traffic,
};

}  // namespace attnlab::naive
