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
  Tile sQ;        // (block_m, head_dim), reused for O on its way out
  Tile sQt;       // (head_dim, block_m)
  Tile sKV;       // (block_n, head_dim), K first, then V
  Tile sSt;       // (block_n, block_m), scores, then probabilities
  Tile sOt;       // (head_dim, block_m), unnormalised
  Tile sMax;      // (1, block_m)
  Tile sSum;      // (1, block_m)
  Tile sRescale;  // (1, block_m)
};

FastMemory carve(cpu::TileCarver& carver, const Tiling& tiling, i64 head_dim) {
  return {.sQ = carver.tile(tiling.block_m, head_dim),
          .sQt = carver.tile(head_dim, tiling.block_m),
          .sKV = carver.tile(tiling.block_n, head_dim),
          .sSt = carver.tile(tiling.block_n, tiling.block_m),
          .sOt = carver.tile(head_dim, tiling.block_m),
          .sMax = carver.tile(1, tiling.block_m),
          .sSum = carver.tile(1, tiling.block_m),
          .sRescale = carver.tile(1, tiling.block_m)};
}

u64 fast_memory_bytes(const Tiling& tiling, i64 head_dim) {
  cpu::TileCarver carver(nullptr);
  carve(carver, tiling, head_dim);
  return carver.bytes();
}

// One work item: the O and lse of one tile of query rows.
void forward(const Schedule& schedule, const Shape& shape, const Mask& mask, const WorkItem& item,
             const Tensors& tensors, const FastMemory& fast, Executor& executor) {
  const auto& [sQ, sQt, sKV, sSt, sOt, sMax, sSum, sRescale] = fast;
  const auto [block_m, block_n] = schedule.tiling;
  const i64 b = item.batch, head = item.head, head_dim = shape.head_dim;
  const Range rows =
      intersect({item.m_block * block_m, (item.m_block + 1) * block_m}, {0, shape.seqlen_q});
  const Range n_blocks = n_block_range(mask, rows, block_n);
  const cpu::RowState state = {.max = sMax.data, .sum = sSum.data, .rescale = sRescale.data};
  const auto key_rows = [&](Operand operand, const void* data, Range keys) {
    return cpu::slice_rows(operand, data, shape.k, b, shape.kv_head(head), keys, head_dim);
  };

  executor.load(cpu::slice_rows(Operand::q, tensors.q, shape.q, b, head, rows, head_dim), sQ);
  executor.transpose(sQ, sQt);
  executor.fill(sMax, -kInfinity);
  executor.fill(sSum, 0.0f);
  executor.fill(sOt, 0.0f);
  executor.skip(schedule.tiling.n_blocks(shape.seqlen_k) - n_blocks.size());

  for (i64 n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
    const Range tile_keys = {n_block * block_n, (n_block + 1) * block_n};
    const TileClass tile_class = classify(mask, rows, tile_keys);
    executor.visit(tile_class, schedule.tiling, head_dim);
    if (tile_class == TileClass::empty) continue;
    const Range keys = intersect(tile_keys, {0, mask.valid_k});
    const Tile scores = sSt.top(keys.size());
    const Tile key_tile = sKV.top(keys.size());

    executor.load(key_rows(Operand::k, tensors.k, keys), sKV);
    executor.multiply(key_tile, sQt, scores);  // S^T = K Q^T
    if (tile_class == TileClass::partial) executor.hide(mask, rows, keys, scores);
    executor.softmax_step(scores, shape.softmax_scale_log2, state);  // P^T = exp(S^T - max)
    executor.load(key_rows(Operand::v, tensors.v, keys), sKV);
    executor.multiply(transposed(key_tile), scores, sOt, Accumulate::rescaled,
                      sRescale.data);  // O^T = O^T * rescale + V^T P^T
  }

  executor.finish_rows(sOt.left(rows.size()), state);  // O^T / sum; lse
  executor.transpose(sOt.left(rows.size()), sQ);
  executor.store(sQ, cpu::slice_rows(Operand::o, tensors.o, shape.q, b, head, rows, head_dim));
  executor.store(sMax, cpu::statistic_row(Operand::lse, tensors.lse,
                                          shape.row_statistic_offset(b, head, 0), rows));
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
