// Implements v1 on a GPU: one kernel forward, two backward, each for K/V heads that the other
// leaves. Before each pass, one finds which tile of keys visits which rows first and last, and,
// under a block pattern, one the classes of its tiles.
#include "kernels/v1/cuda.h"

#include <iterator>
#include <memory>
#include <optional>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pass_configs.h"
#include "kernels/cuda/tile_classes.h"
#include "kernels/v1/cpu.h"
#include "kernels/v1/cuda_tiles.h"
#include "kernels/v1/cuda_units.h"

namespace attnlab::v1 {
namespace {

constexpr std::int64_t kTriedRows[] = {16, 32, 64, 128};
constexpr std::int64_t kTriedKeys[] = {32, 64, 128, 256};

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile; 0: by sram, or the kernel's own choice", 0, 0, 256,
     kTriedRows},
    {"block_n", "keys of a tile; 0: by sram, or the kernel's own choice", 0, 0, 256, kTriedKeys},
    {"sram",
     "M, on-chip elements: min(ceil(M / 4d), d) rows, ceil(M / 4d) keys, in whole 16s, up to 256; "
     "0: the kernel's own choice",
     0, 0, 1 << 20},
};

u64 bytes_of(i64 elements, u64 size) {
  return round_up<u64>(static_cast<u64>(elements) * size, 256);
}

// Returns the bytes of m, or of l.
u64 statistic_bytes(const Problem& problem) {
  return bytes_of(problem.elements_lse(), sizeof(float));
}

// Returns the bytes of Workspace::beyond_lse, which has a flag for each slice.
u64 flag_bytes(const Problem& problem) {
  return bytes_of(problem.batch * problem.num_heads_q, sizeof(i32));
}

// Parts lists the parts of the workspace in order, each sized for the pass that needs more.
struct Parts {
  u64 visits = 0;
  u64 entries = 0;
  u64 statistics = 0;  // m and l, where no backward follows that they are saved for
  u64 sums = 0;
  u64 total() const { return visits + entries + statistics + sums; }
};

template <class KernelConfig>
void add_pass(const Problem& problem, const KernelConfig& kernel, Parts& parts) {
  const Tiling tiling = cuda::tiling_of(kernel);
  const i64 m_blocks = tiling.m_blocks(problem.seqlen_q);
  parts.visits = max(parts.visits, bytes_of(problem.batch * m_blocks, sizeof(RowVisits)));
  if (problem.has_pattern()) {
    parts.entries =
        max(parts.entries, bytes_of(cuda::num_tiles(problem, tiling), sizeof(TileEntry)));
  }
  if (tiling.n_blocks(problem.seqlen_k) == 1) return;  // rows are finished when they are visited
  const i64 rows = problem.batch * problem.num_heads_q * m_blocks * kernel.block_m;
  parts.sums = max(parts.sums, bytes_of(rows * kernel.head_dim, sizeof(float)));
  if (problem.pass == Pass::fwd) parts.statistics = 2 * statistic_bytes(problem);
}

Parts parts_of(const Problem& problem, const Config& config, const Device& device) {
  Parts parts;
  if (problem.runs_forward()) add_pass(problem, forward_config_of(problem, config, device), parts);
  if (problem.runs_backward())
    add_pass(problem, backward_config_of(problem, config, device), parts);
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

// Counts m and l, from which Algorithm 4 computes P again.
std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  return problem.pass == Pass::fwd ? 0 : 2 * statistic_bytes(problem) + flag_bytes(problem);
}

std::vector<KernelUnit> units(const Problem& problem, const Config& config, const Device& device) {
  std::vector<KernelUnit> needed =
      cuda::units_of_passes(problem, config, device, forward_config_of, backward_config_of);
  needed.insert(needed.begin(), row_visits_unit());
  return needed;
}

// Prepared holds everything that a launch needs but the tensors.
class Prepared : public PreparedKernel {
 public:
  Prepared(const Problem& problem, const Config& config, const Device& device)
      : problem_(problem),
        parts_(parts_of(problem, config, device)),
        visits_module_(cuda::load(row_visits_unit(), device)),
        find_visits_(*visits_module_, row_visits_unit().entries.front()) {
    if (problem.runs_forward()) {
      forward_config_ = forward_config_of(problem, config, device);
      const KernelUnit unit = forward_unit(problem.dtype, forward_config_);
      forward_module_ = cuda::load(unit, device);
      forward_ = {*forward_module_, unit.entries.front()};
    }
    if (problem.runs_backward()) {
      backward_config_ = backward_config_of(problem, config, device);
      const KernelUnit unit = backward_unit(problem.dtype, backward_config_);
      backward_module_ = cuda::load(unit, device);
      backward_ = {*backward_module_, unit.entries[0]};
      backward_from_m_and_l_ = {*backward_module_, unit.entries[1]};
    }
    if (problem.has_pattern()) classify_tiles_.emplace(device);
  }

  void launch(const Tensors& tensors, CUstream stream) const {
    const Params params = cuda::make_params(problem_, tensors);
    const auto heads = [&](i64 of_an_entry) {
      return static_cast<u64>(problem_.batch * of_an_entry);
    };
    if (problem_.runs_forward()) {
      forward_(
          stream, heads(problem_.num_heads_q),
          {.params = params,
           .workspace = workspace_of(tensors, params, cuda::tiling_of(forward_config_), stream),
           .tensors = {.gQ = tensors.q,
                       .gK = tensors.k,
                       .gV = tensors.v,
                       .gO = tensors.o,
                       .gLse = tensors.lse}});
    }
    if (problem_.runs_backward()) {
      const BackwardArguments<void> arguments = {
          .params = params,
          .workspace = workspace_of(tensors, params, cuda::tiling_of(backward_config_), stream),
          .tensors = {.gQ = tensors.q,
                      .gK = tensors.k,
                      .gV = tensors.v,
                      .gO = tensors.o,
                      .gDO = tensors.dout,
                      .gDQ = tensors.dq,
                      .gDK = tensors.dk,
                      .gDV = tensors.dv}};
      for (const auto* kernel : {&backward_, &backward_from_m_and_l_}) {
        (*kernel)(stream, heads(problem_.num_heads_kv), arguments);
      }
    }
  }

 private:
  // Returns the workspace of a pass, with what is found before it.
  Workspace workspace_of(const Tensors& tensors, const Params& params, const Tiling& tiling,
                         CUstream stream) const {
    auto* const visits = static_cast<RowVisits*>(tensors.workspace);
    void* const entries = cuda::behind(visits, parts_.visits);
    void* const statistics = cuda::behind(entries, parts_.entries);
    void* const sums = cuda::behind(statistics, parts_.statistics);
    const i64 row_tiles = problem_.batch * tiling.m_blocks(problem_.seqlen_q);
    find_visits_(stream, static_cast<u64>(ceil_div<i64>(row_tiles, kVisitsWarps)),
                 {.params = params, .tiling = tiling, .visits = visits});
    Workspace workspace = {
        .visits = visits, .sums = static_cast<float*>(sums), .saves = tensors.saved != nullptr};
    if (classify_tiles_) {
      auto* const of_tiles = static_cast<TileEntry*>(entries);
      (*classify_tiles_)(stream, params, tiling, TileOrder::keys_first, of_tiles, nullptr);
      workspace.entries = of_tiles;
    }
    void* const m = workspace.saves ? tensors.saved : statistics;
    workspace.m = static_cast<float*>(m);
    void* const l = cuda::behind(m, statistic_bytes(problem_));
    workspace.l = static_cast<float*>(l);
    if (workspace.saves) {
      workspace.beyond_lse = static_cast<i32*>(cuda::behind(l, statistic_bytes(problem_)));
    }
    return workspace;
  }

  Problem problem_;
  Parts parts_;
  ForwardConfig forward_config_;
  BackwardConfig backward_config_;
  std::shared_ptr<const cuda::Module> visits_module_, forward_module_, backward_module_;
  cuda::Kernel<VisitsArguments> find_visits_;
  cuda::Kernel<ForwardArguments<void>> forward_;
  cuda::Kernel<BackwardArguments<void>> backward_, backward_from_m_and_l_;
  std::optional<cuda::TileClassifier> classify_tiles_;  // where there is a block pattern
};

// Leaves the forward's config open: the backward's tile does not apply to it.
Config forward_config(const Config& config) {
  Config open = config;
  for (const char* axis : {"block_m", "block_n", "sram"}) open.set(axis, 0);
  return open;
}

// Rows counts a head's query rows, over the batch: all, and those in tiles that are visited.
struct Rows {
  i64 all = 0;
  i64 visited = 0;
};

Rows rows_of(const Problem& problem, const Tiling& tiling) {
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const BlockPattern blocks = view_block_pattern(problem, pattern.data());
  Rows rows;
  for (i64 b = 0; b < problem.batch; ++b) {
    const Mask mask = make_mask(problem, b, blocks);
    rows.all += mask.seqlen_q;
    for (i64 m_block = 0; m_block < tiling.m_blocks(mask.seqlen_q); ++m_block) {
      const Range tile = tile_range(m_block, tiling.block_m, mask.seqlen_q);
      if (row_visits_of(mask, tile, tiling.block_n).any()) rows.visited += tile.size();
    }
  }
  return rows;
}

// Corrects the sums of O or dQ, of `head_dim` columns: they are not zeroed first, so the first
// visit reads none; until the last visit they are stored in the columns of a tile, `padded`.
void count_sums(OperandTraffic& output, const Rows& rows, i64 head_dim, i64 padded) {
  constexpr i64 kSumBytes = sizeof(float), kOutputBytes = 2;
  const i64 final_bytes = rows.all * head_dim * kOutputBytes;
  const i64 zeros = rows.visited * head_dim * kSumBytes;
  output.read_bytes = (output.read_bytes - zeros) / head_dim * padded;
  output.write_bytes = final_bytes + (output.write_bytes - final_bytes - zeros) / head_dim * padded;
}

// Counts each pass as the CPU side does, with the pass's own tile, but for what is left out at a
// row's first visit and, unless a backward follows, at its last. Open values are those chosen for a
// device on which every tile fits.
Traffic traffic(const Problem& problem, const Config& config) {
  const Device device = device_of_arch("sm_90a");
  const auto count = [&](Pass pass, const auto& kernel) {
    Config schedule = default_config(kCpu);
    schedule.set("block_m", kernel.block_m);
    schedule.set("block_n", kernel.block_n);
    Problem of_pass = problem;
    of_pass.pass = pass;
    Traffic counted = kCpu.traffic(of_pass, schedule);
    // The kernel multiplies the columns of zeros, too.
    counted.executed_flops = counted.executed_flops / problem.head_dim * kernel.head_dim;
    return counted;
  };
  const auto rows_of_heads = [&](const auto& kernel) {
    const Rows rows = rows_of(problem, cuda::tiling_of(kernel));
    return Rows{.all = rows.all * problem.num_heads_q,
                .visited = rows.visited * problem.num_heads_q};
  };
  Traffic all;
  if (problem.runs_forward()) {
    const ForwardConfig kernel = forward_config_of(problem, config, device);
    Traffic forward = count(Pass::fwd, kernel);
    const Rows rows = rows_of_heads(kernel);
    count_sums(forward[Operand::o], rows, problem.head_dim, kernel.head_dim);
    const bool saves = problem.runs_backward();
    for (const Operand statistic : {Operand::m, Operand::l}) {
      OperandTraffic& bytes = forward[statistic];
      bytes.read_bytes -= rows.visited * 4;
      bytes.write_bytes -= (saves ? rows.visited : rows.all + rows.visited) * 4;
    }
    all += forward;
  }
  if (problem.runs_backward()) {
    const BackwardConfig kernel = backward_config_of(problem, config, device);
    Traffic backward = count(Pass::bwd, kernel);
    count_sums(backward[Operand::dq], rows_of_heads(kernel), problem.head_dim, kernel.head_dim);
    // Counts five products a tile, and D at each visit: 16 rows of dO times as many of O.
    const i64 of_one_key = backward.executed_flops / (10 * kernel.block_n);
    backward.executed_flops += 32 * of_one_key;
    all += backward;
  }
  return all;
}

}  // namespace

constexpr Implementation kCuda = {
    .api_version = kApiVersion,
    .name = "v1",
    .backend = Backend::cuda,
    .summary =
        "FlashAttention (2022) with mma.sync and cp.async: key tiles outside, warps split keys",
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

}  // namespace attnlab::v1
