// Implements v3 on a GPU: one kernel forward, four backward (backward.cuh names them); under a
// block pattern one more runs before each pass and finds the classes of its tiles.
#include "kernels/v3/cuda.h"

#include <iterator>
#include <memory>
#include <optional>

#include "kernels/api/quantise.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile_classes.h"
#include "kernels/shared/quantise.h"
#include "kernels/shared/timeline.h"
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
    {"overlap", "1: P V of a tile runs beside the next S; -1: the kernel's own choice", -1, -1, 1},
    {"ping_pong",
     "1: consumers start products in a fixed order, so that the softmax of one overlaps with "
     "products of another; -1: the kernel's own choice",
     -1, -1, 1, kTriedPingPong},
    {"promote",
     "1: products of e4m3 are added up in fp32, 0: in the tensor cores' sums, of 13 bits; -1: the "
     "kernel's own choice",
     -1,
     -1,
     1,
     {},
     AxisRole::promotes},
    {"deterministic", "1: a backward sums dQ in a fixed order", 0, 0, 1, {}, AxisRole::fixed_order},
};

Tiling tiling_of(const ForwardConfig& config) {
  return {.block_m = config.block_m(), .block_n = config.block_n};
}

// Parts lists the parts of the workspace in order, with the bytes of each, multiples of 256. The
// forward uses the first two alone.
struct Parts {
  u64 entries = 0;  // of the pass with more tiles
  u64 next_item = 0;
  u64 statistics = 0;
  u64 dq_sums = 0;
  u64 beyond_lse = 0;  // and behind it turns, or who has cleared sums of dQ
  u64 states = 0;
  u64 total() const { return entries + next_item + statistics + dq_sums + beyond_lse + states; }
};

Parts parts_of(const Problem& problem, const Config& config) {
  const auto bytes = [](i64 elements, u64 size) {
    return round_up<u64>(static_cast<u64>(elements) * size, 256);
  };
  Parts parts;
  const auto add_entries = [&](const Tiling& tiling) {
    if (!problem.has_pattern()) return;
    const u64 needed = bytes(cuda::num_tiles(problem, tiling), sizeof(TileEntry));
    parts.entries = max(parts.entries, needed);
  };
  if (problem.runs_forward()) {
    add_entries(tiling_of(forward_config_of(problem, config)));
    if (is_uneven(problem)) parts.next_item = 256;
  }
  if (!problem.runs_backward()) return parts;
  const BackwardConfig kernel = backward_config_of(problem, config);
  const Tiling tiling = cuda::tiling_of(kernel);
  add_entries(tiling);
  const i64 row_tiles = problem.batch * problem.num_heads_q * tiling.m_blocks(problem.seqlen_q);
  parts.statistics = bytes(row_tiles * 2 * kernel.block_m, sizeof(float));
  parts.dq_sums = bytes(row_tiles * kernel.block_m * kernel.head_dim, sizeof(float));
  i64 words = row_tiles;
  if (kernel.deterministic) {
    words += BackwardTurns::words(row_tiles,
                                  problem.has_pattern() ? cuda::num_tiles(problem, tiling) : 0);
  } else {
    words += problem.batch * problem.num_heads_kv;  // cleared_of()
  }
  parts.beyond_lse = bytes(words, sizeof(i32));
  parts.states = bytes(problem.elements_lse(), sizeof(OnlineSoftmax));
  return parts;
}

// Returns the reason why the forward does not run so, or an empty text.
std::string unsupported_forward(const Problem& problem, const Config& config,
                                const Device& device) {
  const ForwardConfig kernel = forward_config_of(problem, config);
  if (const i64 block_m = config.get("block_m"); block_m != 0 && block_m != kernel.block_m()) {
    return "block_m = " + std::to_string(block_m) +
           ": it must be 64 for each consumer, 64, 128 or 192";
  }
  if (problem.is_e4m3()) {
    if (problem.drops()) return "there is no dropout in e4m3, a format of inference";
    if (problem.head_dim % 16 != 0) {
      return "head_dim must be a multiple of 16 in e4m3: rows of 16 bytes";
    }
    if (problem.quantisation.v == ScaleOf::block && !kernel.promote) {
      return "quant_v = block takes promote = 1, the default up to head_dim 128: sums that are not "
             "promoted have one scale (take quant_v = channel or head)";
    }
    if (problem.quantisation.has_blocks() && kernel.block_n > kScaleRows) {
      return "block_n = " + std::to_string(kernel.block_n) +
             ": where blocks of keys have scales of their own a tile has 64 or 128 keys (take "
             "quant = head and quant_v = channel)";
    }
  } else if (config.contains("promote") && config.get("promote") == 1) {
    return "promote = 1: products of " + std::string(to_string(problem.dtype)) +
           " are added up in fp32 already";
  }
  return unfit(kernel, device);
}

std::string unsupported_backward(const Problem& problem, const Config& config,
                                 const Device& device) {
  if (problem.pass == Pass::bwd) {
    for (const char* axis : {"producer", "overlap", "ping_pong"}) {
      if (config.get(axis) >= 0) {
        return std::string(axis) +
               " is an axis of the forward: a backward has a producer and one "
               "order of its products";
      }
    }
  }
  const BackwardConfig kernel = backward_config_of(problem, config);
  if (const i64 consumers = config.get("consumers");
      consumers != 0 && consumers != kernel.consumers()) {
    return "consumers = " + std::to_string(consumers) + ": a backward at head_dim " +
           std::to_string(kernel.head_dim) + " has " + std::to_string(kernel.consumers());
  }
  return unfit(kernel, device);
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCuda); !reason.empty()) return reason;
  if (device.compute_capability != 90) {
    return "it needs wgmma and bulk copies, which compute capability 9.0 has; this device has " +
           std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10);
  }
  if (std::string reason = cuda::unsupported_by_mma_sync(problem, device); !reason.empty()) {
    return reason;
  }
  if (problem.is_e4m3() && problem.runs_backward()) {
    return "there is no backward in e4m3: three bits of mantissa do not carry gradients";
  }
  std::string reason;
  if (problem.runs_forward()) reason = unsupported_forward(problem, config, device);
  if (reason.empty() && problem.runs_backward()) {
    reason = unsupported_backward(problem, config, device);
  }
  return reason;
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& config,
                              const Device& /*device*/) {
  return parts_of(problem, config).total();
}

std::uint64_t saved_bytes(const Problem& /*problem*/, const Config& /*config*/) { return 0; }

std::vector<KernelUnit> units(const Problem& problem, const Config& config,
                              const Device& /*device*/) {
  std::vector<KernelUnit> needed;
  if (problem.runs_forward()) {
    needed.push_back(forward_unit(problem.dtype, forward_config_of(problem, config)));
  }
  if (problem.runs_backward()) {
    needed.push_back(backward_unit(problem.dtype, backward_config_of(problem, config)));
  }
  if (problem.has_pattern()) needed.push_back(cuda::tile_classes_unit());
  return needed;
}

// Prepared holds everything that a launch needs but the tensors.
class Prepared : public PreparedKernel {
 public:
  // With `timeline` each launch writes it, too, for all work items of the one pass that there is.
  Prepared(const Problem& problem, const Config& config, const Device& device,
           TimelineItem* timeline = nullptr)
      : problem_(problem),
        parts_(parts_of(problem, config)),
        multiprocessors_(static_cast<u64>(max(1, device.multiprocessors))),
        timeline_(timeline) {
    if (problem.runs_forward()) {
      forward_config_ = forward_config_of(problem, config);
      const KernelUnit unit = timeline == nullptr
                                  ? forward_unit(problem.dtype, forward_config_)
                                  : forward_unit_with_timeline(problem.dtype, forward_config_);
      forward_module_ = cuda::load(unit, device);
      if (problem.is_e4m3()) {
        forward_e4m3_ = {*forward_module_, unit.entries[0]};
      } else {
        forward_ = {*forward_module_, unit.entries[0]};
        forward_with_timeline_ = {*forward_module_, unit.entries[0]};
      }
    }
    if (problem.runs_backward()) {
      backward_config_ = backward_config_of(problem, config);
      const KernelUnit unit = timeline == nullptr
                                  ? backward_unit(problem.dtype, backward_config_)
                                  : backward_unit_with_timeline(problem.dtype, backward_config_);
      backward_module_ = cuda::load(unit, device);
      prepare_rows_ = {*backward_module_, unit.entries[0]};
      backward_ = {*backward_module_, unit.entries[1]};
      backward_with_timeline_ = {*backward_module_, unit.entries[1]};
      backward_again_ = {*backward_module_, unit.entries[2]};
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
      (*classify_tiles_)(stream, params, tiling_of(forward_config_), TileOrder::rows_first, entries,
                         nullptr);
    }
    u32* next_item = nullptr;
    if (parts_.next_item != 0) {
      next_item = static_cast<u32*>(cuda::behind(tensors.workspace, parts_.entries));
      cuda::clear_words(stream, next_item, 1, "clearing a counter");
    }
    const WorkGrid grid = forward_grid(problem_, forward_config_);
    const u64 resident = multiprocessors_ * static_cast<u64>(forward_config_.blocks);
    const i64 rows = forward_config_.block_m(), keys = forward_config_.block_n;
    const ForwardTiles tiles = forward_tiles(forward_config_);
    const u64 blocks = min(blocks_of(grid), resident);
    const ForwardSizes sizes = {.params = params, .grid = grid};
    if (problem_.is_e4m3()) {
      const E4m3Inputs& inputs = tensors.e4m3;
      forward_e4m3_(stream, blocks, sizes, e4m3_maps(params, tensors),
                    {.entries = entries,
                     .next_item = next_item,
                     .scales = {.q = inputs.scale_q, .k = inputs.scale_k, .v = inputs.scale_v},
                     .gO = tensors.o,
                     .gLse = tensors.lse});
      return;
    }
    const ForwardMaps maps = {.q = map_of_rows(params, tensors.q, tiles.q, rows),
                              .k = map_of_keys(params, tensors.k, tiles.k, keys),
                              .v = map_of_keys(params, tensors.v, tiles.v, keys),
                              .o = map_of_rows(params, tensors.o, tiles.o, 16)};  // of a warp
    const ForwardPointers<void> pointers = {.entries = entries,
                                            .next_item = next_item,
                                            .tensors = {.gQ = tensors.q,
                                                        .gK = tensors.k,
                                                        .gV = tensors.v,
                                                        .gO = tensors.o,
                                                        .gLse = tensors.lse}};
    if (timeline_ == nullptr) {
      forward_(stream, blocks, sizes, maps, pointers);
    } else {
      forward_with_timeline_(stream, blocks, sizes, maps, pointers, timeline_);
    }
  }

  void backward(const Params& params, const Tensors& tensors, CUstream stream) const {
    const BackwardSizes sizes = {.params = params,
                                 .rows = row_grid(problem_, backward_config_),
                                 .keys = key_grid(problem_, backward_config_),
                                 .workspace = workspace_of(tensors)};
    const BackwardPointers<void> pointers = {.gQ = tensors.q,
                                             .gK = tensors.k,
                                             .gV = tensors.v,
                                             .gO = tensors.o,
                                             .gDO = tensors.dout,
                                             .gLse = tensors.lse,
                                             .gDQ = tensors.dq,
                                             .gDK = tensors.dk,
                                             .gDV = tensors.dv};
    if (classify_tiles_) {
      i32* const seen_before = backward_config_.deterministic
                                   ? turns_of(sizes.workspace, work_items(sizes.rows)).seen_before
                                   : nullptr;
      (*classify_tiles_)(stream, params, cuda::tiling_of(backward_config_), TileOrder::keys_first,
                         sizes.workspace.entries, seen_before);
    }
    const i64 rows = backward_config_.block_m, keys = backward_config_.block_n;
    const BackwardTiles tiles = backward_tiles(backward_config_);
    prepare_rows_(stream, blocks_of(sizes.rows), sizes, pointers);
    const auto early = [](u64 blocks) {
      return cuda::LaunchGrid{.blocks = blocks, .starts_early = true};
    };
    const BackwardMaps maps = {.q = map_of_rows(params, tensors.q, tiles.q, rows),
                               .k = map_of_keys(params, tensors.k, tiles.kv, keys),
                               .v = map_of_keys(params, tensors.v, tiles.kv, keys),
                               .dout = map_of_rows(params, tensors.dout, tiles.q, rows)};
    if (timeline_ == nullptr) {
      backward_(stream, early(blocks_of(sizes.keys)), sizes, maps, pointers);
    } else {
      backward_with_timeline_(stream, early(blocks_of(sizes.keys)), sizes, maps, pointers,
                              timeline_);
    }
    backward_again_(stream, early(min(blocks_of(sizes.keys), multiprocessors_)), sizes, pointers);
    finish_rows_(stream, early(blocks_of(sizes.rows)), sizes, pointers);
  }

  template <class Grid>
  static u64 blocks_of(const Grid& grid) {
    return static_cast<u64>(work_items(grid));
  }

  TileEntry* entries_of(const Tensors& tensors) const {
    return parts_.entries == 0 ? nullptr : static_cast<TileEntry*>(tensors.workspace);
  }

  BackwardWorkspace workspace_of(const Tensors& tensors) const {
    void* const statistics = cuda::behind(tensors.workspace, parts_.entries + parts_.next_item);
    void* const dq_sums = cuda::behind(statistics, parts_.statistics);
    void* const beyond_lse = cuda::behind(dq_sums, parts_.dq_sums);
    void* const states = cuda::behind(beyond_lse, parts_.beyond_lse);
    return {.statistics = static_cast<float*>(statistics),
            .dq_sums = static_cast<float*>(dq_sums),
            .beyond_lse = static_cast<i32*>(beyond_lse),
            .ahead = clearing_ahead(problem_, backward_config_, static_cast<i64>(multiprocessors_)),
            .states = static_cast<OnlineSoftmax*>(states),
            .entries = entries_of(tensors)};
  }

  // Returns how bulk copies see the tensors of e4m3. V^T has keys for columns.
  ForwardMaps e4m3_maps(const Params& params, const Tensors& tensors) const {
    const Shape& shape = params.shape;
    const ForwardTiles tiles = forward_tiles(forward_config_);
    const bool packed = problem_.layout == Layout::packed;
    const i64 entries = packed ? 1 : shape.batch;
    const i64 head = elements_v_transposed(problem_) / (entries * shape.num_heads_kv);
    const i64 keys = head / shape.head_dim;
    const TensorMap v = cuda::make_tensor_map(
        cuda::slab_of({.dtype = Dtype::e4m3,
                       .data = tensors.e4m3.v_transposed,
                       .strides = {.batch = head * shape.num_heads_kv, .head = head, .row = keys},
                       .batch = entries,
                       .heads = shape.num_heads_kv,
                       .rows = shape.head_dim,
                       .head_dim = keys,
                       .tile_rows = tiles.v.rows,
                       .swizzle = swizzle_of(tiles.v)}));
    return {.q = map_of_rows(params, tensors.e4m3.q, tiles.q, tiles.q.rows),
            .k = map_of_keys(params, tensors.e4m3.k, tiles.k, tiles.k.rows),
            .v = v,
            .o = map_of_rows(params, tensors.o, tiles.o, 16)};  // of a warp
  }

  static cuda::Swizzle swizzle_of(const SlabTile& tile) {
    return static_cast<cuda::Swizzle>(tile.row_bytes());
  }

  // Returns how bulk copies see a tensor: `tile_rows` rows of a tile at a time.
  TensorMap map_of(const Params& params, const void* data, const Strides& strides, i64 heads,
                   i64 rows, i64 elements, const SlabTile& tile, i64 tile_rows) const {
    const Shape& shape = params.shape;
    const bool packed = problem_.layout == Layout::packed;
    return cuda::make_tensor_map(
        cuda::slab_of({.dtype = tile.element_bytes == 1 ? Dtype::e4m3 : problem_.output_dtype(),
                       .data = data,
                       .strides = strides,
                       .batch = packed ? 1 : shape.batch,
                       .heads = heads,
                       .rows = packed ? elements / (heads * shape.head_dim) : rows,
                       .head_dim = shape.head_dim,
                       .tile_rows = tile_rows,
                       .swizzle = swizzle_of(tile)}));
  }
  TensorMap map_of_rows(const Params& params, const void* data, const SlabTile& tile,
                        i64 tile_rows) const {
    const Shape& shape = params.shape;
    return map_of(params, data, shape.q, shape.num_heads_q, shape.seqlen_q, problem_.elements_q(),
                  tile, tile_rows);
  }
  TensorMap map_of_keys(const Params& params, const void* data, const SlabTile& tile,
                        i64 tile_rows) const {
    const Shape& shape = params.shape;
    return map_of(params, data, shape.k, shape.num_heads_kv, shape.seqlen_k, problem_.elements_k(),
                  tile, tile_rows);
  }

  Problem problem_;
  Parts parts_;
  u64 multiprocessors_;
  TimelineItem* timeline_;  // null: launches write none
  ForwardConfig forward_config_;
  BackwardConfig backward_config_;
  std::shared_ptr<const cuda::Module> forward_module_, backward_module_;
  cuda::Kernel<ForwardSizes, ForwardMaps, ForwardPointers<void>> forward_;
  cuda::Kernel<ForwardSizes, ForwardMaps, ForwardPointers<void>, TimelineItem*>
      forward_with_timeline_;  // in place of forward_
  cuda::Kernel<ForwardSizes, ForwardMaps, E4m3Pointers<void>> forward_e4m3_;
  cuda::Kernel<BackwardSizes, BackwardPointers<void>> prepare_rows_, backward_again_, finish_rows_;
  cuda::Kernel<BackwardSizes, BackwardMaps, BackwardPointers<void>> backward_;
  cuda::Kernel<BackwardSizes, BackwardMaps, BackwardPointers<void>, TimelineItem*>
      backward_with_timeline_;                          // in place of backward_
  std::optional<cuda::TileClassifier> classify_tiles_;  // where there is a block pattern
};

// Where both passes run, the config stays open: each has a tile of its own.
// Names `promote` for e4m3 alone, as it is no part of what other dtypes are computed with: their
// keys are those of records from before there was e4m3.
Config resolved(const Problem& problem, const Config& config, const Device& /*device*/) {
  Config own;
  for (const auto& [name, value] : config.values()) {
    if (problem.is_e4m3() || name != "promote") own.set(name, value);
  }
  switch (problem.pass) {
    case Pass::fwd: return cuda::with_fields(own, fields_of(forward_config_of(problem, config)));
    case Pass::bwd: return cuda::with_fields(own, fields_of(backward_config_of(problem, config)));
    case Pass::fwdbwd: break;
  }
  return own;
}

// Leaves the forward's config open: the backward's tile does not apply to it.
Config forward_config(const Config& /*config*/) { return default_config(kCuda); }

PreparedKernel* prepare_timeline(const Problem& problem, const Config& config, const Device& device,
                                 TimelineItem* items) {
  return new Prepared(problem, config, device, items);
}

i64 timeline_items(const Problem& problem, const Config& config) {
  if (problem.runs_forward()) {
    return work_items(forward_grid(problem, forward_config_of(problem, config)));
  }
  return work_items(key_grid(problem, backward_config_of(problem, config)));
}

Traffic traffic(const Problem& problem, const Config& config) {
  Traffic all;
  if (problem.runs_forward()) all += forward_traffic(problem, forward_config_of(problem, config));
  if (problem.runs_backward()) {
    all += backward_traffic(problem, backward_config_of(problem, config));
  }
  return all;
}

}  // namespace

constexpr Implementation kCuda = {
    .api_version = kApiVersion,
    .name = "v3",
    .backend = Backend::cuda,
    .summary = "FlashAttention-3: producer and consumer warpgroups, wgmma and bulk copies",
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
    .prepare_timeline = prepare_timeline,
    .timeline_items = timeline_items,
    .configs_to_verify = configs_to_verify,
    .has_e4m3 = true,
};

}  // namespace attnlab::v3
