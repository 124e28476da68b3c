// v2 on the CPU. Against v1 the loops are swapped: query tiles outside, one independent work item
// each, key tiles inside. So O, the row maximum and the row sum stay in fast memory for the whole
// row and reach HBM once; O stays unnormalised until one final scale; tiles that nobody sees are
// skipped and only tiles on the border of the mask pay for masking.
//
// Tiles are kept transposed (keys x query rows, head_dim x query rows): one SIMD lane is one query
// row, as one thread is on a GPU, so maximum, sum and rescaling need no exchange between lanes, and
// K and V are read as they lie in memory.
#include "kernels/v2/cpu.h"

#include <cstddef>
#include <iterator>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {
namespace {

using cpu::Accumulate;
using cpu::Executor;
using cpu::Tile;

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile", 128, 1, 1024},
    {"block_n", "keys of a tile", 128, 1, 1024},
};

Schedule make_schedule(const Problem& problem, const Config& config) {
  return {.tiling = {.block_m = static_cast<i32>(config.get("block_m")),
                     .block_n = static_cast<i32>(config.get("block_n"))},
          .batch = problem.batch,
          .num_heads_q = problem.num_heads_q,
          .seqlen_q = problem.seqlen_q,
          .heavy_last_rows = problem.mask.right() >= 0};
}

// The fast memory of one worker.
struct FastMemory {
  Tile rQ;         // (block_m, head_dim), reused for O on its way out
  Tile qT;         // (head_dim, block_m)
  Tile kv;         // (block_n, head_dim), K first, then V
  Tile sT;         // (block_n, block_m), scores, then probabilities
  Tile oT;         // (head_dim, block_m), unnormalised
  float* row_max;  // (block_m)
  float* row_sum;  // (block_m)
  float* rescale;  // (block_m)
};

FastMemory carve(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim) {
  return {.rQ = carver.tile(tiling.block_m, head_dim),
          .qT = carver.tile(head_dim, tiling.block_m),
          .kv = carver.tile(tiling.block_n, head_dim),
          .sT = carver.tile(tiling.block_n, tiling.block_m),
          .oT = carver.tile(head_dim, tiling.block_m),
          .row_max = carver.row(tiling.block_m),
          .row_sum = carver.row(tiling.block_m),
          .rescale = carver.row(tiling.block_m)};
}

u64 fast_memory_bytes(const Tiling& tiling, i64 head_dim) {
  cpu::TileCarver carver(nullptr);
  carve(carver, tiling, head_dim);
  return carver.bytes();
}

void forward(const Schedule& schedule, const Shape& shape, const Mask& mask, const WorkItem& item,
             const Tensors& tensors, const FastMemory& fast, Executor& executor) {
  const auto [block_m, block_n] = schedule.tiling;
  const i64 head_dim = shape.head_dim;
  const i64 kv_head = shape.kv_head(item.head);
  const Range rows =
      intersect({item.m_block * block_m, (item.m_block + 1) * block_m}, {0, shape.seqlen_q});
  const i64 lanes = fast.sT.ld;  // query rows, padded

  executor.load(
      cpu::slice_rows(Operand::q, tensors.q, shape.q, item.batch, item.head, rows, head_dim),
      fast.rQ);
  executor.transpose(fast.rQ, block_m, head_dim, fast.qT);
  executor.fill(fast.row_max, lanes, -kInfinity);
  executor.fill(fast.row_sum, lanes, 0.0f);
  executor.fill(fast.oT.data, head_dim * lanes, 0.0f);

  const Range n_blocks = n_block_range(mask, rows, block_n);
  executor.skip(schedule.tiling.n_blocks(shape.seqlen_k) - n_blocks.size());
  for (i64 n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
    const Range tile_keys = {n_block * block_n, (n_block + 1) * block_n};
    const TileClass tile_class = classify(mask, rows, tile_keys);
    executor.visit(tile_class, schedule.tiling, head_dim);
    if (tile_class == TileClass::empty) continue;
    const Range keys = intersect(tile_keys, {0, mask.valid_k});

    executor.load(
        cpu::slice_rows(Operand::k, tensors.k, shape.k, item.batch, kv_head, keys, head_dim),
        fast.kv);
    executor.multiply({.rows = keys.size(),
                       .columns = lanes,
                       .inner = head_dim,
                       .a = fast.kv.data,
                       .a_row_stride = fast.kv.ld,
                       .b = fast.qT.data,
                       .ldb = fast.qT.ld,
                       .c = fast.sT.data,
                       .ldc = fast.sT.ld});  // sT = K Q^T  (keys, rows)
    if (tile_class == TileClass::partial) executor.hide(mask, rows, keys, fast.sT);
    executor.softmax_step({.keys = keys.size(),
                           .columns = lanes,
                           .scale_log2 = shape.softmax_scale_log2,
                           .scores = fast.sT.data,
                           .ld = fast.sT.ld,
                           .row_max = fast.row_max,
                           .row_sum = fast.row_sum,
                           .rescale = fast.rescale});  // sT = exp(scores - max)
    executor.load(
        cpu::slice_rows(Operand::v, tensors.v, shape.k, item.batch, kv_head, keys, head_dim),
        fast.kv);
    executor.multiply({.rows = head_dim,
                       .columns = lanes,
                       .inner = keys.size(),
                       .a = fast.kv.data,
                       .a_row_stride = 1,
                       .a_inner_stride = fast.kv.ld,
                       .b = fast.sT.data,
                       .ldb = fast.sT.ld,
                       .c = fast.oT.data,
                       .ldc = fast.oT.ld,
                       .accumulate = Accumulate::rescaled,
                       .column_scale = fast.rescale});  // oT = oT * rescale + V^T P^T
  }

  executor.finish_rows(fast.oT, rows.size(), fast.row_max, fast.row_sum);
  executor.transpose(fast.oT, head_dim, rows.size(), fast.rQ);
  executor.store(fast.rQ, cpu::slice_rows(Operand::o, tensors.o, shape.q, item.batch, item.head,
                                          rows, head_dim));
  executor.store({.data = fast.row_max},
                 cpu::statistic_row(Operand::lse, tensors.lse,
                                    shape.row_statistic_offset(item.batch, item.head, 0), rows));
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  return cpu::unsupported(problem, device);
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  return static_cast<u64>(device.threads) *
         fast_memory_bytes(make_schedule(problem, config).tiling, problem.head_dim);
}

void launch(PreparedKernel* prepared, const Tensors& tensors, void* /*stream*/) {
  auto& kernel = *static_cast<cpu::Prepared*>(prepared);
  const Schedule schedule = make_schedule(kernel.problem, kernel.config);
  const std::vector<Mask> masks = cpu::make_masks(kernel.problem, tensors.block_pattern);
  const u64 worker_bytes = fast_memory_bytes(schedule.tiling, kernel.shape.head_dim);
  kernel.begin_launch();
  kernel.pool->run(work_items(schedule), [&](int worker, i64 index) {
    cpu::TileCarver carver(static_cast<std::byte*>(tensors.workspace) +
                           static_cast<u64>(worker) * worker_bytes);
    const FastMemory fast = carve(carver, schedule.tiling, kernel.shape.head_dim);
    const WorkItem item = work_item(schedule, index);
    forward(schedule, kernel.shape, masks[static_cast<std::size_t>(item.batch)], item, tensors,
            fast, kernel.executors[static_cast<std::size_t>(worker)]);
  });
}

Traffic traffic(const Problem& problem, const Config& config) {
  const Schedule schedule = make_schedule(problem, config);
  const Shape shape = make_shape(problem);
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const std::vector<Mask> masks = cpu::make_masks(problem, pattern.data());
  cpu::TileCarver nowhere(nullptr);
  const FastMemory fast = carve(nowhere, schedule.tiling, shape.head_dim);
  Traffic total;
  for (const cpu::EntryGroup& group : cpu::equal_entries(problem)) {
    Executor counter(nullptr);
    for (i64 m_block = 0; m_block < m_blocks(schedule); ++m_block) {
      forward(schedule, shape, masks[static_cast<std::size_t>(group.entry)],
              {.batch = group.entry, .head = 0, .m_block = m_block}, {}, fast, counter);
    }
    Traffic slices = counter.traffic();
    total += slices *= group.count * problem.num_heads_q;
  }
  return total;
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
    .prepare = cpu::prepare,
    .launch = launch,
    .release = cpu::release,
    .traffic = traffic,
};

}  // namespace attnlab::v2
