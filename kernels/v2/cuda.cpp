// Implements v2 on a GPU: one kernel forward, four backward (backward.cuh names them); under a
// block pattern one more runs before each pass and finds the classes of its tiles.
#include "kernels/v2/cuda.h"

#include <iterator>
#include <memory>
#include <optional>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/causal_section.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pass_configs.h"
#include "kernels/cuda/tile_classes.h"
#include "kernels/shared/softmax.h"
#include "kernels/v2/cpu.h"
#include "kernels/v2/cuda_tiles.h"
#include "kernels/v2/cuda_units.h"

namespace attnlab::v2 {
namespace {

constexpr std::int64_t kTriedRows[] = {32, 64, 128, 256};
constexpr std::int64_t kTriedKeys[] = {32, 64, 80, 96, 128};
constexpr std::int64_t kTriedWarps[] = {4, 8};
constexpr std::int64_t kTriedStages[] = {1, 2};

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile; 0: the kernel's own choice", 0, 0, 256, kTriedRows},
    {"block_n", "keys of a tile; 0: the kernel's own choice", 0, 0, 256, kTriedKeys},
    {"warps", "warps of a thread block; 0: the kernel's own choice", 0, 0, 16, kTriedWarps},
    {"stages", "tiles of K and V on chip, one of them in use; 0: the kernel's own choice", 0, 0, 4,
     kTriedStages},
    {"deterministic", "1: a backward sums dQ in a fixed order", 0, 0, 1, {}, AxisRole::fixed_order},
};

WorkGrid forward_grid(const Problem& problem, const Shape& shape, const ForwardConfig& config) {
  const bool is_causal = problem.mask.right() >= 0;
  const WorkGrid grid = row_grid(shape, cuda::tiling_of(config), is_causal);
  return with_sections(grid, is_causal ? cuda::causal_section(shape) : 1);
}

// Parts lists the parts of the workspace in order, with the bytes of each, multiples of 256. The
// forward uses the first alone.
struct Parts {
  u64 entries = 0;  // of the pass with more tiles
  u64 seen_before = 0;
  u64 delta = 0;
  u64 dq_sums = 0;
  u64 beyond_lse = 0;
  u64 dq_semaphores = 0;
  u64 tickets = 0;
  u64 total() const {
    return entries + seen_before + delta + dq_sums + beyond_lse + dq_semaphores + tickets;
  }
};

Parts parts_of(const Problem& problem, const Config& config, const Device& device) {
  const auto bytes = [](i64 elements, u64 size) {
    return round_up<u64>(static_cast<u64>(elements) * size, 256);
  };
  Parts parts;
  if (problem.has_pattern() && problem.runs_forward()) {
    const Tiling tiling = cuda::tiling_of(forward_config_of(problem, config, device));
    parts.entries = bytes(cuda::num_tiles(problem, tiling), sizeof(TileEntry));
  }
  if (!problem.runs_backward()) return parts;
  const bool deterministic = config.get("deterministic") != 0;
  const BackwardConfig kernel = backward_config_of(problem, config, device);
  const Tiling tiling = cuda::tiling_of(kernel);
  if (problem.has_pattern()) {
    const i64 tiles = cuda::num_tiles(problem, tiling);
    parts.entries = max(parts.entries, bytes(tiles, sizeof(TileEntry)));
    if (deterministic) parts.seen_before = bytes(tiles, sizeof(i32));
  }
  const i64 row_tiles = problem.batch * problem.num_heads_q * tiling.m_blocks(problem.seqlen_q);
  parts.delta = bytes(problem.elements_lse(), sizeof(float));
  parts.dq_sums = bytes(row_tiles * kernel.block_m * kernel.head_dim, sizeof(float));
  parts.beyond_lse = bytes(row_tiles, sizeof(i32));
  if (deterministic) {
    parts.dq_semaphores = bytes(row_tiles, sizeof(i32));
    parts.tickets = bytes(2, sizeof(u32));
  }
  return parts;
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  return cuda::unsupported_by_passes(kCuda, problem, config, device, forward_config_of,
                                     backward_config_of);
}

Config resolved(const Problem& problem, const Config& config, const Device& device) {
  return cuda::resolved_of_pass(problem, config, device, forward_config_of, backward_config_of);
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  return parts_of(problem, config, device).total();
}

// Counts the maximum and the sum of rows whose logits lse does not hold (softmax_of_row).
std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  const u64 rows = static_cast<u64>(problem.elements_lse());
  return problem.pass == Pass::fwd ? 0 : round_up<u64>(rows * sizeof(OnlineSoftmax), 256);
}

std::vector<KernelUnit> units(const Problem& problem, const Config& config, const Device& device) {
  return cuda::units_of_passes(problem, config, device, forward_config_of, backward_config_of);
}

// Prepared holds everything that a launch needs but the tensors.
class Prepared : public PreparedKernel {
 public:
  Prepared(const Problem& problem, const Config& config, const Device& device)
      : problem_(problem),
        deterministic_(config.get("deterministic") != 0),
        parts_(parts_of(problem, config, device)),
        multiprocessors_(device.multiprocessors) {
    if (problem.runs_forward()) {
      forward_config_ = forward_config_of(problem, config, device);
      const KernelUnit unit = forward_unit(problem.dtype, forward_config_);
      forward_module_ = cuda::load(unit, device);
      forward_ = {*forward_module_, unit.entries[0]};
    }
    if (problem.runs_backward()) {
      backward_config_ = backward_config_of(problem, config, device);
      const KernelUnit unit = backward_unit(problem.dtype, backward_config_);
      backward_module_ = cuda::load(unit, device);
      prepare_rows_ = {*backward_module_, unit.entries[0]};
      backward_ = {*backward_module_, unit.entries[1]};
      backward_from_saved_ = {*backward_module_, unit.entries[2]};
      finish_rows_ = {*backward_module_, unit.entries[3]};
    }
    if (problem.has_pattern()) classify_tiles_.emplace(device);
  }

  void launch(const Tensors& tensors, CUstream stream) const {
    const Params params = cuda::make_params(problem_, tensors);
    if (problem_.runs_forward()) forward(params, tensors, stream);
    if (problem_.runs_backward()) backward(params, tensors, stream);
  }

 private:
  void forward(const Params& params, const Tensors& tensors, CUstream stream) const {
    TileEntry* const entries = entries_of(tensors);
    if (classify_tiles_) {
      (*classify_tiles_)(stream, params, cuda::tiling_of(forward_config_), TileOrder::rows_first,
                         entries, nullptr);
    }
    const WorkGrid grid = forward_grid(problem_, params.shape, forward_config_);
    forward_(stream, blocks_of(grid),
             {.params = params,
              .grid = grid,
              .entries = entries,
              .tensors = {.gQ = tensors.q,
                          .gK = tensors.k,
                          .gV = tensors.v,
                          .gO = tensors.o,
                          .gLse = tensors.lse,
                          .gSaved = static_cast<OnlineSoftmax*>(tensors.saved)}});
  }

  void backward(const Params& params, const Tensors& tensors, CUstream stream) const {
    const Tiling tiling = cuda::tiling_of(backward_config_);
    const WorkGrid rows = row_grid(params.shape, tiling, false);
    const WorkGrid keys = key_grid(params.shape, tiling, deterministic_);
    const BackwardWorkspace workspace = workspace_of(tensors);
    if (classify_tiles_) {
      (*classify_tiles_)(stream, params, tiling, TileOrder::keys_first, workspace.entries,
                         workspace.seen_before);
    }
    prepare_rows_(stream, blocks_of(rows),
                  {.params = params,
                   .grid = rows,
                   .workspace = workspace,
                   .tensors = {.gO = tensors.o, .gDO = tensors.dout, .gLse = tensors.lse}});
    const BackwardArguments<void> arguments = {
        .params = params,
        .grid = keys,
        .workspace = workspace,
        .tensors = {.gQ = tensors.q,
                    .gK = tensors.k,
                    .gV = tensors.v,
                    .gDO = tensors.dout,
                    .gLse = tensors.lse,
                    .gDK = tensors.dk,
                    .gDV = tensors.dv,
                    .gSaved = static_cast<const OnlineSoftmax*>(tensors.saved)}};
    backward_(stream, blocks_of(keys), arguments);
    const u64 at_once = static_cast<u64>(max(1, multiprocessors_));
    backward_from_saved_(stream, min(blocks_of(keys), at_once), arguments);
    finish_rows_(stream, blocks_of(rows),
                 {.params = params, .grid = rows, .workspace = workspace, .gDQ = tensors.dq});
  }

  static u64 blocks_of(const WorkGrid& grid) { return static_cast<u64>(work_items(grid)); }

  TileEntry* entries_of(const Tensors& tensors) const {
    return parts_.entries == 0 ? nullptr : static_cast<TileEntry*>(tensors.workspace);
  }

  BackwardWorkspace workspace_of(const Tensors& tensors) const {
    void* const seen_before = cuda::behind(tensors.workspace, parts_.entries);
    void* const delta = cuda::behind(seen_before, parts_.seen_before);
    void* const dq_sums = cuda::behind(delta, parts_.delta);
    void* const beyond_lse = cuda::behind(dq_sums, parts_.dq_sums);
    void* const dq_semaphores = cuda::behind(beyond_lse, parts_.beyond_lse);
    void* const tickets = cuda::behind(dq_semaphores, parts_.dq_semaphores);
    BackwardWorkspace workspace = {.delta = static_cast<float*>(delta),
                                   .dq_sums = static_cast<float*>(dq_sums),
                                   .beyond_lse = static_cast<i32*>(beyond_lse),
                                   .entries = entries_of(tensors)};
    if (deterministic_) {
      workspace.dq_semaphores = static_cast<i32*>(dq_semaphores);
      workspace.tickets = static_cast<u32*>(tickets);
      if (problem_.has_pattern()) workspace.seen_before = static_cast<i32*>(seen_before);
    }
    return workspace;
  }

  Problem problem_;
  bool deterministic_;
  Parts parts_;
  int multiprocessors_;
  ForwardConfig forward_config_;
  BackwardConfig backward_config_;
  std::shared_ptr<const cuda::Module> forward_module_, backward_module_;
  cuda::Kernel<ForwardArguments<void>> forward_;
  cuda::Kernel<PrepareArguments<void>> prepare_rows_;
  cuda::Kernel<BackwardArguments<void>> backward_, backward_from_saved_;
  cuda::Kernel<FinishArguments<void>> finish_rows_;
  std::optional<cuda::TileClassifier> classify_tiles_;  // where there is a block pattern
};

// Leaves the forward's config open: the backward's tile does not apply to it.
Config forward_config(const Config& config) {
  Config open = config;
  for (const char* axis : {"block_m", "block_n", "warps", "stages"}) open.set(axis, 0);
  return open;
}

// Counts the CPU side's schedule with each pass's own tile; open values are those chosen for a
// device on which every tile fits.
Traffic traffic(const Problem& problem, const Config& config) {
  const Device device = device_of_arch("sm_90a");
  Traffic all;
  const auto add = [&](Pass pass, const auto& kernel) {
    Config schedule = default_config(kCpu);
    schedule.set("block_m", kernel.block_m);
    schedule.set("block_n", kernel.block_n);
    schedule.set("deterministic", config.get("deterministic"));
    Problem of_pass = problem;
    of_pass.pass = pass;
    Traffic traffic = kCpu.traffic(of_pass, schedule);
    traffic[Operand::lse].read_bytes += traffic[Operand::delta].write_bytes;  // prepare_rows
    // The kernel multiplies the columns of zeros, too.
    traffic.executed_flops = traffic.executed_flops / problem.head_dim * kernel.head_dim;
    all += traffic;
  };
  if (problem.runs_forward()) add(Pass::fwd, forward_config_of(problem, config, device));
  if (problem.runs_backward()) add(Pass::bwd, backward_config_of(problem, config, device));
  return all;
}

}  // namespace

constexpr Implementation kCuda = {
    .api_version = kApiVersion,
    .name = "v2",
    .backend = Backend::cuda,
    .summary = "FlashAttention-2 with mma.sync and cp.async: query tiles outside, warps split rows",
    .axes = kAxes,
    .num_axes = static_cast<int>(std::size(kAxes)),
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .units = units,
    .prepare = cuda::prepare<Prepared>,
    .launch = cuda::launch<Prepared>,
    .release = cuda::release<Prepared>,
    .traffic = traffic,
    .resolved = resolved,
    .forward_config = forward_config,
    .configs_to_verify = configs_to_verify,
};

}  // namespace attnlab::v2
