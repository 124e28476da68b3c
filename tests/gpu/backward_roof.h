// Holds the loop of tests/gpu/backward_roof_text.h as a unit and as a kernel with its tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "harness/tensors/arena.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/v3/cuda_units.h"
#include "tests/gpu/backward_roof_text.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {

// RoofTile is the tile of FlashAttention-3's code at a head dim, without a mask.
struct RoofTile {
  i32 head_dim, rows, keys;
  std::size_t wgmmas;  // of a step and consumer

  v3::BackwardConfig config() const {
    return {.head_dim = head_dim, .block_m = rows, .block_n = keys};
  }
  double flops() const { return 10.0 * rows * keys * head_dim; }  // of a step
  bool transposes_dq() const { return head_dim > 64; }            // its product is dQ^T
  std::string name() const { return "d" + std::to_string(head_dim); }
};
inline constexpr RoofTile kRoofTiles[] = {
    {64, 128, 128, 32}, {128, 80, 128, 34}, {256, 64, 80, 58}};

inline void PrintTo(const RoofTile& tile, std::ostream* stream) { *stream << tile.name(); }

// Returns the unit of a tile, in whose text each product is started once.
inline KernelUnit roof_unit(const RoofTile& tile) {
  const v3::BackwardConfig config = tile.config();
  std::vector<WarpgroupProduct> products =
      v3::backward_unit(Dtype::f16, config).entries.at(1).products;
  for (WarpgroupProduct& product : products) product.places = 1;
  if (tile.transposes_dq()) products.back().columns = tile.rows;
  return {.name = "backward-roof-" + tile.name(),
          .source = "#include \"kernels/v3/schedule.h\"\n" +
                    cuda::config_text("attnlab::v3::BackwardConfig", v3::fields_of(config)) +
                    kRoofText + (config.shares_columns() ? kRoofTextOfColumns : kRoofTextOfKeys) +
                    kRoofKernel,
          .entries = {{.name = "backward_roof",
                       .threads = config.threads(),
                       .dynamic_shared_bytes = static_cast<u64>(backward_tiles(config).bytes()),
                       .products = std::move(products)}}};
}

// RoofLoop is the loop with its tensors: of `blocks` blocks each has keys of its own, and all have
// the same `tiles` tiles of rows. Its constructor throws as cuda::load() and Arena::allocate() do.
class RoofLoop {
 public:
  struct Operands {
    const void *q, *dout;           // (tiles * rows, head_dim) of f16
    const void *k, *v;              // (blocks * keys, head_dim)
    std::vector<float> lse, delta;  // (rows) of every tile, the former in units of log2
    float scale_log2;               // softmax_scale * log2(e)
  };

  RoofLoop(Arena& arena, const RoofTile& tile, i32 blocks, i32 tiles, const Operands& from)
      : blocks_(static_cast<u64>(blocks)),
        module_(cuda::load(roof_unit(tile), gpu())),
        kernel_(*module_, roof_unit(tile).entries.at(0)),
        maps_{.q = map(from.q, tile, tiles, tile.rows),
              .k = map(from.k, tile, blocks, tile.keys),
              .v = map(from.v, tile, blocks, tile.keys),
              .dout = map(from.dout, tile, tiles, tile.rows)} {
    std::vector<float> all;
    const auto add = [&](const std::vector<float>& some, i32 stages) {
      for (i32 i = 0; i < stages; ++i) all.insert(all.end(), some.begin(), some.end());
    };
    add(from.lse, tile.config().stages);
    add(from.delta, tile.config().dout_stages());
    statistics_ = room(arena, "lse, delta", all.size());
    arena.runtime().write(statistics_.get(), all.data(), all.size() * sizeof(float));
    const auto size = [&](i32 count, i32 rows) {
      return static_cast<std::size_t>(count) * static_cast<std::size_t>(rows * tile.head_dim);
    };
    dq_ = room(arena, "dQ", size(tiles, tile.rows));
    arena.runtime().fill(dq_.get(), 0, size(tiles, tile.rows) * sizeof(float));
    dv_dk_ = room(arena, "dV, dK", 2 * size(blocks, tile.keys));
    sizes_.params.shape.softmax_scale_log2 = from.scale_log2;
    sizes_.rows.blocks = tiles;
    sizes_.workspace.statistics = static_cast<float*>(statistics_.get());
    sizes_.workspace.dq_sums = static_cast<float*>(dq_.get());
  }

  // Launches asynchronously: so many steps of each block. dq() goes on from launch to launch.
  void operator()(i32 steps) const {
    kernel_(cuda::as_stream(runtime_of(gpu()).queue()), blocks_, sizes_, maps_, steps,
            dv_dk_.get());
  }
  // Return sums in fp32, as registers have them.
  const Arena::Buffer& dq() const { return dq_; }        // (tiles, rows * head_dim)
  const Arena::Buffer& dv_dk() const { return dv_dk_; }  // (blocks, 2, keys * head_dim)

 private:
  static Arena::Buffer room(Arena& arena, const char* name, std::size_t floats) {
    return arena.allocate(name, floats * sizeof(float));
  }
  static TensorMap map(const void* data, const RoofTile& tile, i32 count, i32 rows) {
    return cuda::make_tensor_map(cuda::slab_of({.data = data,
                                                .strides = {.row = tile.head_dim},
                                                .rows = i64{count} * rows,
                                                .head_dim = tile.head_dim,
                                                .tile_rows = rows}));
  }

  u64 blocks_;
  std::shared_ptr<const cuda::Module> module_;
  cuda::Kernel<v3::BackwardSizes, v3::BackwardMaps, i32, void*> kernel_;
  v3::BackwardMaps maps_;
  v3::BackwardSizes sizes_;
  Arena::Buffer statistics_, dq_, dv_dk_;
};

}  // namespace attnlab
