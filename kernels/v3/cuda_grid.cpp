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
  WorkGrid grid = {.batch = shape.batch,
                   .heads = shape.num_heads_q,
                   .blocks = ceil_div<i64>(shape.seqlen_q, config.block_m()),
                   .last_block_first = is_causal};
  if (is_causal) grid.section = cuda::causal_section(shape);
  return grid;
}

}  // namespace attnlab::v3
