#include "kernels/cuda/tile_classes.h"

#include "kernels/cuda/unit_text.h"

namespace attnlab::cuda {
namespace {

constexpr int kThreads = 128;
constexpr i64 kWarp = 32;
constexpr i32 kSmallTile = 64;

}  // namespace

KernelUnit tile_classes_unit() {
  const KernelEntry entry = {.name = "classify_tiles", .threads = kThreads};
  return {.name = "tile-classes",
          .source = "#include \"kernels/device/tile_classes.cuh\"\nusing namespace attnlab;\n" +
                    kernel_text(entry, 1, {"TileClassesArguments"}, "device::classify_tiles"),
          .entries = {entry}};
}

i64 num_tiles(const Problem& problem, const Tiling& tiling) {
  return problem.batch * tiling.m_blocks(problem.seqlen_q) * tiling.n_blocks(problem.seqlen_k);
}

bool suits_pattern(const Problem& problem, const Tiling& tiling) {
  if (!problem.has_pattern()) return true;
  const auto suits = [](i32 tile, i32 block) {
    return block % tile == 0 || kSmallTile % tile == 0;
  };
  return suits(tiling.block_m, problem.mask.blocks->block_q) &&
         suits(tiling.block_n, problem.mask.blocks->block_k);
}

TileClassifier::TileClassifier(const Device& device)
    : module_(load(tile_classes_unit(), device)),
      classify_tiles_(*module_, tile_classes_unit().entries.front()) {}

void TileClassifier::operator()(CUstream stream, const Params& params, const Tiling& tiling,
                                TileOrder order, TileEntry* entries, i32* seen_before) const {
  const Shape& shape = params.shape;
  const i64 rows_of_tiles =
      shape.batch * (order == TileOrder::rows_first ? tiling.m_blocks(shape.seqlen_q)
                                                    : tiling.n_blocks(shape.seqlen_k));
  classify_tiles_(stream, static_cast<u64>(ceil_div<i64>(kWarp * rows_of_tiles, kThreads)),
                  {.params = params,
                   .tiling = tiling,
                   .order = order,
                   .entries = entries,
                   .seen_before = seen_before});
}

}  // namespace attnlab::cuda
