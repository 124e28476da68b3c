#include "kernels/v3/cuda_grid.h"

#include "kernels/cuda/causal_section.h"

namespace attnlab::v3 {

bool is_uneven(const Problem& problem) {
  return problem.has_pattern() || problem.mask.left() >= 0 || problem.mask.right() >= 0 ||
         problem.lengths.kind != LengthsKind::dense;
}

WorkGrid forward_grid(const Problem& problem, const ForwardConfig& config) {
  const Shape shape = make_shape(problem);
  const bool is_causal = problem.mask.right() >= 0;
  const WorkGrid grid = {.batch = shape.batch,
                         .heads = shape.num_heads_q,
                         .blocks = ceil_div<i64>(shape.seqlen_q, config.block_m()),
                         .last_block_first = is_causal};
  return with_sections(grid, is_causal ? cuda::causal_section(shape) : 1);
}

WorkGrid row_grid(const Problem& problem, const BackwardConfig& config) {
  const Shape shape = make_shape(problem);
  return {.batch = shape.batch,
          .heads = shape.num_heads_q,
          .blocks = ceil_div<i64>(shape.seqlen_q, config.block_m)};
}

SectionedGrid key_grid(const Problem& problem, const BackwardConfig& config) {
  constexpr i64 kBlocksAtOnce = 132, kCacheBytes = i64{40} << 20, kShort = 2048;
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
