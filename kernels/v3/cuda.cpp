// v3 on a GPU: one kernel forward; under a block pattern one before it, which finds the classes of
// its tiles.
#include "kernels/v3/cuda.h"

#include <iterator>
#include <memory>
#include <optional>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile_classes.h"
#include "kernels/v3/cuda_grid.h"
#include "kernels/v3/cuda_tiles.h"
#include "kernels/v3/cuda_traffic.h"
#include "kernels/v3/cuda_units.h"

namespace attnlab::v3 {
namespace {

constexpr std::int64_t kTriedRows[] = {64, 128, 192};
constexpr std::int64_t kTriedKeys[] = {64, 80, 96, 112, 128, 144, 160, 176, 192};
constexpr std::int64_t kTriedStages[] = {2, 3};
constexpr std::int64_t kTriedPingPong[] = {0, 1};

constexpr ConfigAxis kAxes[] = {
    {"block_m", "query rows of a tile, 64 for each consumer; 0: the kernel's own choice", 0, 0, 192,
     kTriedRows},
    {"block_n", "keys of a tile; 0: the kernel's own choice", 0, 0, 192, kTriedKeys},
    {"consumers", "warpgroups that compute, 64 query rows each; 0: the kernel's own choice", 0, 0,
     3},
    {"stages", "tiles of K and of V on chip; 0: the kernel's own choice", 0, 0, 4, kTriedStages},
    {"producer", "1: a warpgroup only loads, 0: consumers load; -1: the kernel's own choice", -1,
     -1, 1},
    {"overlap", "1: P V of a tile runs during the next softmax; -1: the kernel's own choice", -1,
     -1, 1},
    {"ping_pong",
     "1: consumers start products in a fixed order, so that the softmax of one overlaps with "
     "products of another; -1: the kernel's own choice",
     -1, -1, 1, kTriedPingPong},
};

Tiling tiling_of(const ForwardConfig& config) {
  return {.block_m = config.block_m(), .block_n = config.block_n};
}

// The parts of the workspace, in order; bytes of each, whole multiples of 256.
struct Parts {
  u64 entries = 0;
  u64 next_item = 0;
  u64 total() const { return entries + next_item; }
};

Parts parts_of(const Problem& problem, const Config& config) {
  Parts parts;
  if (problem.has_pattern()) {
    const i64 tiles = cuda::num_tiles(problem, tiling_of(forward_config_of(problem, config)));
    parts.entries = round_up<u64>(static_cast<u64>(tiles) * sizeof(TileEntry), 256);
  }
  if (is_uneven(problem)) parts.next_item = 256;
  return parts;
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCuda); !reason.empty()) return reason;
  if (problem.runs_backward()) return "v3 has no backward pass on a GPU yet";
  if (device.compute_capability != 90) {
    return "it needs wgmma and bulk copies, which compute capability 9.0 has; this device has " +
           std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10);
  }
  if (std::string reason = cuda::unsupported_by_mma_sync(problem, device); !reason.empty()) {
    return reason;
  }
  const ForwardConfig kernel = forward_config_of(problem, config);
  if (const i64 block_m = config.get("block_m"); block_m != 0 && block_m != kernel.block_m()) {
    return "block_m = " + std::to_string(block_m) +
           ": it must be 64 for each consumer, 64, 128 or 192";
  }
  return unfit(kernel, device);
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config,
                              const Device& /*device*/) {
  return parts_of(problem, config).total();
}

std::uint64_t saved_bytes(const Problem& /*problem*/, const Config& /*config*/) { return 0; }

std::vector<KernelUnit> units(const Problem& problem, const Config& config,
                              const Device& /*device*/) {
  std::vector<KernelUnit> needed = {
      forward_unit(problem.dtype, forward_config_of(problem, config))};
  if (problem.has_pattern()) needed.push_back(cuda::tile_classes_unit());
  return needed;
}

// Everything that a launch needs but the tensors.
class Prepared : public PreparedKernel {
 public:
  Prepared(const Problem& problem, const Config& config, const Device& device)
      : problem_(problem),
        parts_(parts_of(problem, config)),
        config_(forward_config_of(problem, config)),
        resident_blocks_(static_cast<u64>(device.multiprocessors * config_.blocks)) {
    const KernelUnit unit = forward_unit(problem.dtype, config_);
    module_ = cuda::load(unit, device);
    forward_ = {*module_, unit.entries[0]};
    if (problem.has_pattern()) classify_tiles_.emplace(device);
  }

  void launch(const Tensors& tensors, CUstream stream) const {
    const Params params = cuda::make_params(problem_, tensors);
    auto* const entries =
        parts_.entries == 0 ? nullptr : static_cast<TileEntry*>(tensors.workspace);
    if (classify_tiles_) {
      (*classify_tiles_)(stream, params, tiling_of(config_), TileOrder::rows_first, entries,
                         nullptr);
    }
    u32* next_item = nullptr;
    if (parts_.next_item != 0) {
      next_item = static_cast<u32*>(cuda::behind(tensors.workspace, parts_.entries));
      cuda::clear_words(stream, next_item, 1, "clearing a counter");
    }
    const WorkGrid grid = forward_grid(problem_, config_);
    const u64 blocks = min(static_cast<u64>(work_items(grid)), resident_blocks_);
    forward_(stream, blocks, {.params = params, .grid = grid}, maps_of(params, tensors),
             {.entries = entries,
              .next_item = next_item,
              .tensors = {.gQ = tensors.q,
                          .gK = tensors.k,
                          .gV = tensors.v,
                          .gO = tensors.o,
                          .gLse = tensors.lse}});
  }

 private:
  ForwardMaps maps_of(const Params& params, const Tensors& tensors) const {
    const Shape& shape = params.shape;
    const bool packed = problem_.layout == Layout::packed;
    const auto map = [&](const void* data, const Strides& strides, i64 heads, i64 rows,
                         i64 elements, i64 tile_rows) {
      return cuda::make_tensor_map(
          cuda::slab_of({.dtype = problem_.dtype,
                         .data = data,
                         .strides = strides,
                         .batch = packed ? 1 : shape.batch,
                         .heads = heads,
                         .rows = packed ? elements / (heads * shape.head_dim) : rows,
                         .head_dim = shape.head_dim,
                         .tile_rows = tile_rows}));
    };
    const auto of_rows = [&](const void* data, i64 tile_rows) {
      return map(data, shape.q, shape.num_heads_q, shape.seqlen_q, problem_.elements_q(),
                 tile_rows);
    };
    const auto of_keys = [&](const void* data) {
      return map(data, shape.k, shape.num_heads_kv, shape.seqlen_k, problem_.elements_k(),
                 config_.block_n);
    };
    return {.q = of_rows(tensors.q, config_.block_m()),
            .k = of_keys(tensors.k),
            .v = of_keys(tensors.v),
            .o = of_rows(tensors.o, 16)};  // of a warp
  }

  Problem problem_;
  Parts parts_;
  ForwardConfig config_;
  u64 resident_blocks_;  // that the device holds at once
  std::shared_ptr<const cuda::Module> module_;
  cuda::Kernel<ForwardSizes, ForwardMaps, ForwardPointers<void>> forward_;
  std::optional<cuda::TileClassifier> classify_tiles_;  // where there is a block pattern
};

Config resolved(const Problem& problem, const Config& config, const Device& /*device*/) {
  return cuda::with_fields(config, fields_of(forward_config_of(problem, config)));
}

Traffic traffic(const Problem& problem, const Config& config) {
  return forward_traffic(problem, forward_config_of(problem, config));
}

}  // namespace

constexpr Implementation kCuda = {
    .api_version = kApiVersion,
    .name = "v3",
    .backend = Backend::cuda,
    .summary =
        "FlashAttention-3's forward: producer and consumer warpgroups, wgmma and bulk copies",
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
    .configs_to_verify = configs_to_verify,
};

}  // namespace attnlab::v3
