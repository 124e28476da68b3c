// Implements minimal on the CPU: what flash attention is, before it is made fast.
//
// Against naive one thing changes: the attention matrix is never in memory. A row needs from its
// past only the largest score, the sum of exponentials and an unnormalised row of O; with them it
// takes one key after the other, and every key it has taken is forgotten (online softmax). So 32
// keys at a time are brought into fast memory, where 32 rows share them, and memory grows with
// seqlen instead of its square. The sums of these 32 keys join those of the row when they are
// complete: thousands of small numbers added to a large one, one by one, round the same way too
// often (an lse of 2275 keys was off by 1.7e-5, four times what it may be).
//
// What is left out is what the next generations are about. v1 turns key by key into tile by tile:
// products of tiles, one rescaling of O for a tile (and it keeps K and V in place while O, l and m
// travel). v2 gives each block of rows its own O in fast memory, as here, and adds what costs
// nothing but thought: it looks at the mask before it loads a tile, skips those that nobody sees
// and masks only those on the border. Here every row asks the mask about every key.
#include "kernels/minimal/cpu.h"

#include <array>
#include <cstddef>
#include <span>

#include "kernels/cpu/runner.h"
#include "kernels/minimal/schedule.h"
#include "kernels/shared/softmax.h"

namespace attnlab::minimal {
namespace {

using cpu::Executor;
using cpu::Tile;

// FastMemory is the fast memory of one block.
struct FastMemory {
  Tile sQ;     // (32, head_dim)
  Tile sK;     // (32, head_dim)
  Tile sV;     // (32, head_dim)
  Tile sO;     // (32, head_dim), unnormalised
  Tile sPart;  // (32, head_dim), what the keys at hand add to it
  Tile sLse;   // (1, 32)
};

FastMemory carve(cpu::TileCarver& carver, i64 head_dim) {
  return {.sQ = carver.tile(kBlock, head_dim),
          .sK = carver.tile(kBlock, head_dim),
          .sV = carver.tile(kBlock, head_dim),
          .sO = carver.tile(kBlock, head_dim),
          .sPart = carver.tile(kBlock, head_dim),
          .sLse = carver.tile(1, kBlock)};
}

u64 worker_bytes(const Problem& problem, const Config& /*config*/) {
  cpu::TileCarver carver(nullptr);
  carve(carver, problem.head_dim);
  return carver.bytes();
}

// Work is what all work items of a launch share.
struct Work {
  explicit Work(const Problem& problem)
      : shape(make_shape(problem)),
        dropout(make_dropout(problem.dropout, problem.seed)),
        has_mask(!problem.mask.is_none()) {}

  Shape shape;
  Dropout dropout;
  bool has_mask;
};

// Worker is what one worker keeps: its row.
struct Worker {
  i64 row = 0;
  const float* q = nullptr;  // (head_dim)
  float* o = nullptr;        // (head_dim), unnormalised
  float* part = nullptr;     // (head_dim), of the keys at hand
  OnlineSoftmax softmax;
};

float dot(const float* a, const float* b, i64 n) {
  float sum = 0.0f;
  for (i64 x = 0; x < n; ++x) sum += a[x] * b[x];
  return sum;
}

// A worker takes the keys of one tile, one after the other, then takes what they are together into
// its row.
void attend(const Work& work, const Mask& mask, i64 slice, Range keys, const FastMemory& fast,
            Worker& worker) {
  const i64 head_dim = work.shape.head_dim;
  OnlineSoftmax tile;
  for (i64 x = 0; x < head_dim; ++x) worker.part[x] = 0.0f;
  for (i64 key = keys.begin; key < keys.end; ++key) {
    if (!is_visible(mask, worker.row, key)) continue;
    const float* k = fast.sK.data + (key - keys.begin) * fast.sK.ld;
    const float* v = fast.sV.data + (key - keys.begin) * fast.sV.ld;
    const float score = dot(worker.q, k, head_dim);
    const float scale = work.shape.softmax_scale_log2;
    const float rescale = raise_max(tile, scaled_max(score, scale));
    const float p = exp2_f32(exponent(score, tile.max, scale));
    tile.sum += p;
    const bool dropped =
        work.dropout.threshold > 0 && !is_kept(work.dropout, slice, worker.row, key);
    const float weight = dropped ? 0.0f : p;
    for (i64 x = 0; x < head_dim; ++x) worker.part[x] = worker.part[x] * rescale + weight * v[x];
  }
  const MergedSoftmax row = merge(worker.softmax, tile);
  worker.softmax = row.state;
  for (i64 x = 0; x < head_dim; ++x) {
    worker.o[x] = worker.o[x] * row.factor_a + worker.part[x] * row.factor_b;
  }
}

// Divides the worker's row of O by its sum and returns its lse.
float finish(const Work& work, const Worker& worker) {
  const float scale = final_scale(worker.softmax) * work.dropout.keep_scale;
  for (i64 x = 0; x < work.shape.head_dim; ++x) worker.o[x] *= scale;
  return lse(worker.softmax, work.shape);
}

// Does one work item: the O and lse of the rows of one block.
void forward(const Work& work, const cpu::SliceTensors& slice, i64 block, const FastMemory& fast,
             Executor& executor) {
  const Mask& mask = slice.mask();
  const Range rows = tile_range(block, kBlock, mask.seqlen_q);
  if (rows.empty()) return;  // a packed entry shorter than the longest
  executor.load(slice.q(rows), fast.sQ);
  executor.fill(fast.sO, 0.0f);
  std::array<Worker, kBlock> block_workers;
  const i64 num_workers = executor.counts_only() ? 0 : rows.size();
  const std::span workers(block_workers.data(), static_cast<std::size_t>(num_workers));
  for (i64 r = 0; r < num_workers; ++r) {
    workers[static_cast<std::size_t>(r)] = {.row = rows.begin + r,
                                            .q = fast.sQ.data + r * fast.sQ.ld,
                                            .o = fast.sO.data + r * fast.sO.ld,
                                            .part = fast.sPart.data + r * fast.sPart.ld};
  }

  for (i64 n_block = 0; n_block < kTiling.n_blocks(mask.seqlen_k); ++n_block) {
    const Range keys = tile_range(n_block, kBlock, mask.seqlen_k);
    executor.visit(work.has_mask ? TileClass::partial : TileClass::full, kTiling,
                   work.shape.head_dim, kForwardProducts);
    executor.load(slice.k(keys), fast.sK);
    executor.load(slice.v(keys), fast.sV);
    for (Worker& worker : workers) attend(work, mask, slice.index(), keys, fast, worker);
  }

  for (std::size_t r = 0; r < workers.size(); ++r) fast.sLse.data[r] = finish(work, workers[r]);
  executor.store(fast.sO, slice.o(rows));
  executor.store(fast.sLse, slice.lse(rows));
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  if (problem.pass != Pass::fwd) return "minimal is a teaching kernel: it has no backward pass";
  if (problem.dtype != Dtype::f32) return "minimal is a teaching kernel: it has f32 only";
  return cpu::unsupported(problem, device);
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  return cpu::workers_bytes(device.threads, worker_bytes(problem, config));
}

std::uint64_t saved_bytes(const Problem& /*problem*/, const Config& /*config*/) { return 0; }

void run_passes(const Problem& problem, const Config& /*config*/, const Tensors& /*tensors*/,
                void* /*hbm*/, cpu::Runner& runner) {
  const Work work(problem);
  runner.slices(row_blocks_grid(work.shape), [&](const cpu::SliceTensors& slice, i64 block,
                                                 cpu::TileCarver carver, Executor& executor) {
    forward(work, slice, block, carve(carver, work.shape.head_dim), executor);
  });
}

}  // namespace

constexpr Implementation kCpu = {
    .api_version = kApiVersion,
    .name = "minimal",
    .backend = Backend::cpu,
    .summary = "the teaching kernel: one worker a query row, tiles of 32 keys, online softmax",
    .axes = nullptr,
    .num_axes = 0,
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = cpu::prepare,
    .launch = cpu::launch<run_passes, worker_bytes>,
    .release = cpu::release,
    .traffic = cpu::traffic<run_passes>,
};

}  // namespace attnlab::minimal
