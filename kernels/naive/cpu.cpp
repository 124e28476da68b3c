// naive on the CPU: the baseline. The attention matrix is written to HBM and read back by every
// pass; the products are what a library would do (blocked for the caches, full speed), so each
// takes its operands from HBM once, whatever the blocking inside reads again.
#include "kernels/naive/cpu.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/naive/schedule.h"

namespace attnlab::naive {
namespace {

using cpu::Accumulate;
using cpu::Executor;
using cpu::Tile;

constexpr i64 kPanelRows = 64;   // query rows that one block of a product works on
constexpr i64 kPanelKeys = 256;  // keys of such a block

// The fast memory of one worker.
struct FastMemory {
  Tile sRows;   // (kPanelRows, head_dim): Q, or O being accumulated
  Tile sKeys;   // (kPanelKeys, head_dim): K or V
  Tile sKeysT;  // (head_dim, kPanelKeys): K^T
  Tile sS;      // (kPanelRows, kPanelKeys): a block of S or P
  Tile sRow;    // (1, seqlen_k): a whole row of S or P
};

FastMemory carve(cpu::TileCarver& carver, const Shape& shape) {
  return {.sRows = carver.tile(kPanelRows, shape.head_dim),
          .sKeys = carver.tile(kPanelKeys, shape.head_dim),
          .sKeysT = carver.tile(shape.head_dim, kPanelKeys),
          .sS = carver.tile(kPanelRows, kPanelKeys),
          .sRow = carver.tile(1, shape.seqlen_k)};
}

u64 fast_memory_bytes(const Shape& shape) {
  cpu::TileCarver carver(nullptr);
  carve(carver, shape);
  return carver.bytes();
}

u64 score_bytes(const Shape& shape) {
  return round_up<u64>(static_cast<u64>(score_elements(shape)) * sizeof(float), 256);
}

// What all passes see.
struct Work {
  Shape shape;
  const std::vector<cpu::BatchEntry>* entries = nullptr;
  Tensors tensors;
  float* s = nullptr;  // (batch, num_heads_q, seqlen_q, seqlen_k)
  float* p = nullptr;  // likewise
};

Range panel(i64 begin, i64 size, i64 extent) { return {begin, min(begin + size, extent)}; }

cpu::GlobalRows slice_rows(Operand operand, const void* data, const Strides& strides, i64 b, i64 h,
                           Range rows, i64 columns) {
  return {.operand = operand,
          .data = const_cast<void*>(data),
          .offset = strides.offset(b, h, rows.begin),
          .row_stride = strides.row,
          .rows = rows.size(),
          .columns = columns};
}

cpu::GlobalRows score_rows(Operand operand, const float* data, const Shape& shape,
                           const PanelItem& item, Range rows, Range keys) {
  cpu::GlobalRows global =
      slice_rows(operand, data, score_strides(shape), item.batch, item.head, rows, keys.size());
  global.offset += keys.begin;
  return global;
}

// Pass 1 for one panel of keys: S[:, keys] = softmax_scale * Q K[keys]^T.
void product_qk(const Work& work, const PanelItem& item, const FastMemory& fast,
                Executor& library) {
  const Shape& shape = work.shape;
  const Range keys = item.range;
  library.load(slice_rows(Operand::k, work.tensors.k, shape.k, item.batch, shape.kv_head(item.head),
                          keys, shape.head_dim),
               fast.sKeys);
  library.transpose(fast.sKeys, fast.sKeysT);
  library.scale(fast.sKeysT, shape.softmax_scale);
  for (i64 row = 0; row < shape.seqlen_q; row += kPanelRows) {
    const Range rows = panel(row, kPanelRows, shape.seqlen_q);
    library.load(slice_rows(Operand::q, work.tensors.q, shape.q, item.batch, item.head, rows,
                            shape.head_dim),
                 fast.sRows);
    library.multiply(fast.sRows.top(rows.size()), fast.sKeysT, fast.sS.left(keys.size()));
    library.store(fast.sS, score_rows(Operand::s, work.s, shape, item, rows, keys));
  }
}

// Pass 2 for one panel of rows: S = -inf where the mask hides.
void mask_rows(const Work& work, const PanelItem& item, const FastMemory& fast,
               Executor& executor) {
  const Mask& mask = (*work.entries)[static_cast<std::size_t>(item.batch)].mask;
  for (i64 r = item.range.begin; r < item.range.end; ++r) {
    const cpu::GlobalRows row =
        score_rows(Operand::s, work.s, work.shape, item, {r, r + 1}, {0, work.shape.seqlen_k});
    executor.load(row, fast.sRow);
    executor.hide(mask, {.tile = fast.sRow, .rows = {r, r + 1}, .keys = {0, work.shape.seqlen_k}});
    executor.store(fast.sRow, row);
  }
}

// Pass 3 for one panel of rows: P = softmax(S), lse.
void softmax_rows(const Work& work, const PanelItem& item, const FastMemory& fast,
                  Executor& executor) {
  const Shape& shape = work.shape;
  const Range keys = {0, shape.seqlen_k};
  for (i64 r = item.range.begin; r < item.range.end; ++r) {
    executor.load(score_rows(Operand::s, work.s, shape, item, {r, r + 1}, keys), fast.sRow);
    float lse = executor.softmax_row(fast.sRow);
    executor.store(fast.sRow, score_rows(Operand::p, work.p, shape, item, {r, r + 1}, keys));
    executor.store(
        {.data = &lse},
        slice_rows(Operand::lse, work.tensors.lse,
                   {.batch = shape.num_heads_q * shape.seqlen_q, .head = shape.seqlen_q, .row = 1},
                   item.batch, item.head, {r, r + 1}, 1));
  }
}

// Pass 4 for one panel of rows: O[rows] = P[rows] V.
void product_pv(const Work& work, const PanelItem& item, const FastMemory& fast,
                Executor& library) {
  const Shape& shape = work.shape;
  const Range rows = item.range;
  for (i64 key = 0; key < shape.seqlen_k; key += kPanelKeys) {
    const Range keys = panel(key, kPanelKeys, shape.seqlen_k);
    library.load(score_rows(Operand::p, work.p, shape, item, rows, keys), fast.sS);
    library.load(slice_rows(Operand::v, work.tensors.v, shape.k, item.batch,
                            shape.kv_head(item.head), keys, shape.head_dim),
                 fast.sKeys);
    library.multiply(fast.sS.top(rows.size()).left(keys.size()), fast.sKeys, fast.sRows,
                     key == 0 ? Accumulate::no : Accumulate::add);
  }
  library.store(fast.sRows, slice_rows(Operand::o, work.tensors.o, shape.q, item.batch, item.head,
                                       rows, shape.head_dim));
}

// Operands of the two products of one slice, each once.
void count_products(const Shape& shape, Executor& executor) {
  constexpr i64 kBytes = sizeof(float);
  const i64 q_bytes = shape.seqlen_q * shape.head_dim * kBytes;
  const i64 k_bytes = shape.seqlen_k * shape.head_dim * kBytes;
  const i64 s_bytes = shape.seqlen_q * shape.seqlen_k * kBytes;
  executor.count_read(Operand::q, q_bytes);
  executor.count_read(Operand::k, k_bytes);
  executor.count_write(Operand::s, s_bytes);
  executor.count_read(Operand::p, s_bytes);
  executor.count_read(Operand::v, k_bytes);
  executor.count_write(Operand::o, q_bytes);
  executor.count_flops(4 * shape.seqlen_q * shape.seqlen_k * shape.head_dim);
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  if (problem.pass != Pass::fwd || problem.dtype != Dtype::f32 || problem.dropout > 0.0 ||
      problem.layout == Layout::packed) {
    return "naive has only the f32 forward pass without dropout so far";
  }
  return cpu::unsupported(problem, device);
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& /*config*/,
                              const Device& device) {
  const Shape shape = make_shape(problem);
  return 2 * score_bytes(shape) + static_cast<u64>(device.threads) * fast_memory_bytes(shape);
}

std::uint64_t saved_bytes(const Problem& /*problem*/, const Config& /*config*/) { return 0; }

void launch(PreparedKernel* prepared, const Tensors& tensors, void* /*stream*/) {
  auto& kernel = *static_cast<cpu::Prepared*>(prepared);
  const Shape& shape = kernel.shape;
  const std::vector<cpu::BatchEntry> entries =
      cpu::make_entries(kernel.problem, tensors.block_pattern);
  std::byte* s = static_cast<std::byte*>(tensors.workspace);
  std::byte* p = s + score_bytes(shape);
  std::byte* workers = p + score_bytes(shape);
  const u64 worker_bytes = fast_memory_bytes(shape);
  const Work work = {.shape = shape,
                     .entries = &entries,
                     .tensors = tensors,
                     .s = reinterpret_cast<float*>(s),
                     .p = reinterpret_cast<float*>(p)};
  kernel.begin_launch();
  Executor& counter = kernel.executors.front();
  for (i64 slice = 0; slice < shape.batch * shape.num_heads_q; ++slice) {
    count_products(shape, counter);
  }

  const auto run_pass = [&](i64 extent, i64 panel_size, auto pass, bool is_library) {
    const PassSchedule schedule = {.batch = shape.batch,
                                   .num_heads_q = shape.num_heads_q,
                                   .extent = extent,
                                   .panel = panel_size};
    kernel.pool->run(work_items(schedule), [&](int worker, i64 index) {
      cpu::TileCarver carver(workers + static_cast<u64>(worker) * worker_bytes);
      Executor library(kernel.ops);
      pass(work, work_item(schedule, index), carve(carver, shape),
           is_library ? library : kernel.executors[static_cast<std::size_t>(worker)]);
    });
  };
  run_pass(shape.seqlen_k, kPanelKeys, product_qk, true);
  if (!kernel.problem.mask.is_none()) run_pass(shape.seqlen_q, kPanelRows, mask_rows, false);
  run_pass(shape.seqlen_q, kPanelRows, softmax_rows, false);
  run_pass(shape.seqlen_q, kPanelRows, product_pv, true);
}

Traffic traffic(const Problem& problem, const Config& /*config*/) {
  const Shape shape = make_shape(problem);
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const std::vector<cpu::BatchEntry> entries = cpu::make_entries(problem, pattern.data());
  const Work work = {.shape = shape, .entries = &entries, .tensors = {}};
  cpu::TileCarver nowhere(nullptr);
  const FastMemory fast = carve(nowhere, shape);
  const PanelItem slice = {.range = {0, shape.seqlen_q}};
  Executor counter(nullptr);
  count_products(shape, counter);
  if (!problem.mask.is_none()) mask_rows(work, slice, fast, counter);
  softmax_rows(work, slice, fast, counter);
  Traffic total = counter.traffic();
  return total *= shape.batch * shape.num_heads_q;
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
