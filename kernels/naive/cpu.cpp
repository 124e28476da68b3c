// Implements naive on the CPU, the baseline: what a framework does without a fused kernel. Every
// pass writes the attention matrix to HBM and reads it back (schedule.h lists them); the passes
// themselves are in cpu_passes.cpp and cpu_products.cpp.
#include "kernels/naive/cpu.h"

#include <span>
#include <vector>

#include "kernels/naive/cpu_passes.h"

namespace attnlab::naive {
namespace {

using cpu::Executor;
using cpu::SliceTensors;

// Runs passes and products over all slices; `runner` runs or counts them.
void run(ElementWisePass pass, const Work& work, cpu::Runner& runner) {
  runner.slices(row_panels_grid(work.shape), [&](const SliceTensors& tensors, i64 panel,
                                                 cpu::TileCarver carver, Executor& executor) {
    const Slice slice(work, tensors);
    const Range rows = tile_range(panel, kPanelRows, slice.rows().end);
    if (!rows.empty()) pass(work, slice, rows, carve(carver, work.shape), executor);
  });
}

// Each product counts its operands once a slice, with the first panel.
void run(const ScoreProduct& product, const Work& work, cpu::Runner& runner) {
  runner.slices(
      key_panels_grid(work.shape, work.shape.num_heads_q),
      [&](const SliceTensors& tensors, i64 panel, cpu::TileCarver carver, Executor& executor) {
        const Slice slice(work, tensors);
        const Range keys = tile_range(panel, kPanelKeys, slice.keys().end);
        if (panel == 0) count(product, slice, executor);
        if (keys.empty() || executor.counts_only()) return;
        Executor library = executor.uncounted();
        run(product, work, slice, keys, carve(carver, work.shape), library);
      });
}

void run(const RowProduct& product, const Work& work, cpu::Runner& runner) {
  runner.slices(row_panels_grid(work.shape), [&](const SliceTensors& tensors, i64 panel,
                                                 cpu::TileCarver carver, Executor& executor) {
    const Slice slice(work, tensors);
    const Range rows = tile_range(panel, kPanelRows, slice.rows().end);
    if (panel == 0) count(product, slice, executor);
    if (rows.empty() || executor.counts_only()) return;
    Executor library = executor.uncounted();
    run(product, slice, rows, carve(carver, work.shape), library);
  });
}

void run(const KeyProduct& product, const Work& work, cpu::Runner& runner) {
  runner.groups(key_panels_grid(work.shape, work.shape.num_heads_kv),
                [&](std::span<const SliceTensors> heads, i64 panel, cpu::TileCarver carver,
                    Executor& executor) {
                  std::vector<Slice> group;
                  for (const SliceTensors& tensors : heads) group.emplace_back(work, tensors);
                  const Range keys = tile_range(panel, kPanelKeys, group.front().keys().end);
                  if (panel == 0) count(product, group, executor);
                  if (keys.empty() || executor.counts_only()) return;
                  Executor library = executor.uncounted();
                  run(product, group, keys, carve(carver, work.shape), library);
                });
}

// Runs the passes in order.
void forward(const Work& work, cpu::Runner& runner) {
  const bool needs_parts = work.writes_lse && work.problem.dtype != Dtype::f32;
  run(ScoreProduct{.left = &SliceTensors::q,
                   .right = &SliceTensors::k,
                   .scale = work.shape.softmax_scale,
                   .result = work.s,
                   .epilogue = needs_parts ? Epilogue::part_lse : Epilogue::none},
      work, runner);
  if (!work.problem.mask.is_none()) run(mask_rows, work, runner);
  run(softmax_rows, work, runner);
  if (work.dropout.threshold > 0) run(dropout_rows, work, runner);
  run(RowProduct{.left = work.dropped_p, .right = &SliceTensors::v, .result = &SliceTensors::o},
      work, runner);
}

void backward(const Work& work, cpu::Runner& runner) {
  run(ScoreProduct{.left = &SliceTensors::dout, .right = &SliceTensors::v, .result = work.dp}, work,
      runner);
  if (work.dropout.threshold > 0) run(dropout_backward_rows, work, runner);
  run(softmax_backward_rows, work, runner);
  if (work.dropout.threshold > 0) run(dropout_rows, work, runner);
  run(RowProduct{.left = work.ds,
                 .right = &SliceTensors::k,
                 .scale = work.shape.softmax_scale,
                 .result = &SliceTensors::dq},
      work, runner);
  run(KeyProduct{.left = work.ds,
                 .right = &SliceTensors::q,
                 .scale = work.shape.softmax_scale,
                 .result = &SliceTensors::dk},
      work, runner);
  run(KeyProduct{.left = work.dropped_p, .right = &SliceTensors::dout, .result = &SliceTensors::dv},
      work, runner);
}

u64 matrix_bytes(const Problem& problem) {
  return static_cast<u64>(matrix_elements(make_shape(problem)) *
                          size_bytes(problem.output_dtype()));
}

u64 worker_bytes(const Problem& problem, const Config& /*config*/) {
  cpu::TileCarver carver(nullptr);
  carve(carver, make_shape(problem));
  return carver.bytes();
}

// Matrices is the workspace behind the workers' fast memory, in bytes of each part. Two at most are
// alive beside the saved P: a pass may write where a matrix lies that nobody reads again.
struct Matrices {
  u64 first = 0;     // S, then Pd; in backward dP, then dS
  u64 second = 0;    // P that is not saved; in backward Pd
  u64 part_lse = 0;  // see Epilogue
};

Matrices matrices_bytes(const Problem& problem) {
  const u64 matrix = round_up<u64>(matrix_bytes(problem), 256);
  const bool has_part_lse = problem.runs_forward() && problem.dtype != Dtype::f32;
  const i64 parts = has_part_lse ? problem.elements_lse() * key_panels(problem.seqlen_k) : 0;
  return {.first = matrix,
          .second = problem.pass == Pass::fwd || problem.drops() ? matrix : 0,
          .part_lse = static_cast<u64>(parts) * sizeof(float)};
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  const Matrices sizes = matrices_bytes(problem);
  return cpu::workers_bytes(device.threads, worker_bytes(problem, config)) + sizes.first +
         sizes.second + sizes.part_lse;
}

// Counts P, from which the backward starts.
std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  return problem.pass == Pass::fwd ? 0 : matrix_bytes(problem);
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCpu); !reason.empty()) return reason;
  return cpu::unsupported(problem, device);
}

// Runs both passes, on matrices in `hbm`.
void run_passes(const Problem& problem, WritesLse writes_lse, const Tensors& tensors, void* hbm,
                cpu::Runner& runner) {
  const Matrices sizes = matrices_bytes(problem);
  void* const first = hbm;
  void* const second = cpu::behind(first, sizes.first);
  Work work = {.problem = problem,
               .shape = make_shape(problem),
               .dropout = make_dropout(problem.dropout, problem.seed),
               .writes_lse = writes_lse == WritesLse::always || problem.dtype == Dtype::f32};
  work.s.data = work.dp.data = work.ds.data = first;
  work.p.data = tensors.saved != nullptr ? tensors.saved : second;
  work.part_lse = static_cast<float*>(cpu::behind(second, sizes.second));
  if (problem.runs_forward()) {
    work.dropped_p.data = problem.drops() ? first : work.p.data;
    forward(work, runner);
  }
  if (problem.runs_backward()) {
    work.dropped_p.data = problem.drops() ? second : work.p.data;
    backward(work, runner);
  }
}

void run_all(const Problem& problem, const Config& /*config*/, const Tensors& tensors, void* hbm,
             cpu::Runner& runner) {
  run_passes(problem, WritesLse::always, tensors, hbm, runner);
}

}  // namespace

Traffic count_passes(const Problem& problem, WritesLse writes_lse) {
  return cpu::count(problem, [&](cpu::Runner& runner) {
    run_passes(problem, writes_lse, Tensors{}, nullptr, runner);
  });
}

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
    .launch = cpu::launch<run_all, worker_bytes>,
    .release = cpu::release,
    .traffic = cpu::traffic<run_all>,
    .has_e4m3 = true,  // S and P in f16, products in fp32
};

}  // namespace attnlab::naive
