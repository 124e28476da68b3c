#include "kernels/v3/cuda_grid.h"

#include <numeric>

#include "kernels/cuda/causal_section.h"

namespace attnlab::v3 {
namespace {

constexpr i64 kBlocksAtOnce = 132;

// An item with rows for one or two of three consumers is assumed to take so much of the time of one
// with rows for all. It has not been measured.
constexpr double kShortItem = 0.72;

// StaticItems is how slices are divided for a static round-robin.
struct StaticItems {
  i64 section = 1;
  i64 small_slices = 0;
  double time = 0.0;  // that a launch takes at most, as predicted, in items with rows for all
};

// Returns the smallest section by which a block visits all `blocks` places of a slice in turn, or 0
// where that would interleave more slices than run at once. A block's next item is 132 further:
// where all of a section's items lie, 132 / section places.
i64 section_in_turn(i64 blocks) {
  for (i64 section = 1; section * blocks <= kBlocksAtOnce; ++section) {
    if (kBlocksAtOnce % section != 0) continue;
    if (std::gcd(kBlocksAtOnce / section, blocks) == 1) return section;
  }
  return 0;
}

// Finds how many of the last slices small items shall be of, in whole sections, and which sections
// are best.
StaticItems best_items(const Problem& problem, const ForwardConfig& config) {
  const i64 slices = problem.batch * problem.num_heads_q;
  const i64 blocks = ceil_div<i64>(problem.seqlen_q, config.block_m());
  const i64 small_blocks = ceil_div<i64>(problem.seqlen_q, config.small_block_m());
  const bool has_short =
      problem.seqlen_q - (blocks - 1) * config.block_m() <= config.small_block_m();
  const i64 in_turn = has_short ? section_in_turn(blocks) : 0;
  StaticItems best;
  const auto compare = [&](i64 section, i64 small_slices) {
    // The first block has as many items as any: so many of other slices, then small ones.
    const i64 items = (slices - small_slices) * blocks;
    const i64 waves = ceil_div(items, kBlocksAtOnce);
    const i64 small_waves = ceil_div(items + small_slices * small_blocks, kBlocksAtOnce) - waves;
    // The first section, which may be smaller, need not fit in.
    const i64 short_items =
        small_waves + (section == in_turn ? max<i64>(0, waves - 1) / blocks : 0);
    const double time = static_cast<double>(waves + small_waves) -
                        (1.0 - kShortItem) * static_cast<double>(short_items);
    if (best.time == 0.0 || time < best.time) best = {section, small_slices, time};
  };
  // These are two waves of small items, as a slice has two or more.
  const i64 most = min(slices, kBlocksAtOnce);
  for (i64 small = 0; small <= most; ++small) compare(1, small);
  for (i64 small = 0; in_turn > 1 && small <= most; small += in_turn) compare(in_turn, small);
  return best;
}

}  // namespace

bool gains_by_small_items(const Problem& problem, const ForwardConfig& config) {
  constexpr double kLeastGain = 0.01;
  if (is_uneven(problem) || config.consumers != 3 || config.e4m3) return false;
  const i64 blocks = ceil_div<i64>(problem.seqlen_q, config.block_m());
  const i64 waves = ceil_div(problem.batch * problem.num_heads_q * blocks, kBlocksAtOnce);
  return best_items(problem, config).time <= (1.0 - kLeastGain) * static_cast<double>(waves);
}

bool is_uneven(const Problem& problem) {
  return problem.has_pattern() || problem.mask.left() >= 0 || problem.mask.right() >= 0 ||
         problem.lengths.kind != LengthsKind::dense;
}

ForwardGrid forward_grid(const Problem& problem, const ForwardConfig& config) {
  const Shape shape = make_shape(problem);
  const bool is_causal = problem.mask.right() >= 0;
  const WorkGrid tiles = {.batch = shape.batch,
                          .heads = shape.num_heads_q,
                          .blocks = ceil_div<i64>(shape.seqlen_q, config.block_m()),
                          .last_block_first = is_causal};
  const StaticItems items = config.small_items ? best_items(problem, config) : StaticItems{};
  const i64 small_blocks =
      config.small_items ? ceil_div<i64>(shape.seqlen_q, config.small_block_m()) : 0;
  return {.tiles = with_sections(tiles, is_causal ? cuda::causal_section(shape) : items.section),
          .small_slices = static_cast<u32>(items.small_slices),
          .small_blocks = static_cast<u32>(small_blocks)};
}

WorkGrid row_grid(const Problem& problem, const BackwardConfig& config) {
  const Shape shape = make_shape(problem);
  return {.batch = shape.batch,
          .heads = shape.num_heads_q,
          .blocks = ceil_div<i64>(shape.seqlen_q, config.block_m)};
}

SectionedGrid key_grid(const Problem& problem, const BackwardConfig& config) {
  constexpr i64 kCacheBytes = i64{40} << 20, kShort = 2048;
  const Shape shape = make_shape(problem);
  const WorkGrid grid = {.batch = shape.batch,
                         .heads = shape.num_heads_kv,
                         .blocks = ceil_div<i64>(shape.seqlen_k, config.block_n)};
  const i64 blocks = max<i64>(1, grid.blocks);
  if (problem.mask.right() >= 0) {
    const i64 row_bytes = shape.head_dim * (2 + 2 + 4) * shape.sharing();
    const i64 in_cache = section_size(kCacheBytes, shape.seqlen_q * row_bytes, 1);
    if (shape.seqlen_k <= kShort && shape.sharing() == 1 && !config.deterministic) {
      // Beyond head dim 128, whose dQ is added by all threads, tiles of one head at a time would be
      // slower by 6 to 9 % at 512 keys (kernels/v3/TUNING.md, b10).
      const i64 slices = config.shares_columns() ? min<i64>(8, in_cache) : 1;
      return SectionedGrid(grid, slices, 2 * kBlocksAtOnce / blocks);
    }
    return SectionedGrid(grid, in_cache, max(in_cache, kBlocksAtOnce / blocks));
  }
  // In a fixed order blocks of a slice that begin together must first get a step apart from one
  // another. So those that begin together shall be of different slices, as many as run at once.
  const i64 slices = config.deterministic ? kBlocksAtOnce / blocks : 1;
  return SectionedGrid(grid, slices, slices);
}

i64 clearing_ahead(const Problem& problem, const BackwardConfig& config, i64 multiprocessors) {
  if (problem.has_pattern() || problem.mask.left() >= 0) {
    return work_items(key_grid(problem, config));
  }
  constexpr i64 kShortBytes = 512 << 10;
  const i64 rows = problem.seqlen_q * (problem.num_heads_q / problem.num_heads_kv);
  const i64 bytes = rows * config.head_dim * static_cast<i64>(sizeof(float));
  return multiprocessors * (bytes > kShortBytes ? 4 : 1);
}

}  // namespace attnlab::v3
