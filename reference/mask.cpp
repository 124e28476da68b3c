#include "reference/mask.h"

#include "reference/block_pattern.h"

namespace attnlab::reference {

std::int64_t rows_in_memory(const Problem& problem, std::int64_t b) {
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  return packed ? problem.lengths.queries[static_cast<std::size_t>(b)] : problem.seqlen_q;
}

std::int64_t keys_in_memory(const Problem& problem, std::int64_t b) {
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  return packed ? problem.lengths.keys[static_cast<std::size_t>(b)] : problem.seqlen_k;
}

Visibility::Visibility(const Problem& problem) : mask_(problem.mask) {
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t keys = keys_in_memory(problem, b);
    const bool padded = problem.lengths.kind == LengthsKind::padding;
    entries_.push_back({.diagonal = keys - rows_in_memory(problem, b),
                        .keys = padded ? problem.lengths.keys[static_cast<std::size_t>(b)] : keys});
  }
  if (mask_.blocks) blocks_ = draw_pattern(*mask_.blocks, problem.seqlen_q, problem.seqlen_k);
}

bool Visibility::sees(std::int64_t b, std::int64_t r, std::int64_t c) const {
  const Entry& entry = entries_[static_cast<std::size_t>(b)];
  const std::int64_t aligned = r + entry.diagonal;
  if (c >= entry.keys) return false;
  if (mask_.causal && c > aligned) return false;
  if (mask_.window) {
    if (mask_.window->left != -1 && c < aligned - mask_.window->left) return false;
    if (mask_.window->right != -1 && c > aligned + mask_.window->right) return false;
  }
  if (!mask_.blocks) return true;
  const auto i = static_cast<std::size_t>(r / mask_.blocks->block_q);
  const auto j = static_cast<std::size_t>(c / mask_.blocks->block_k);
  return blocks_[i][j];
}

}  // namespace attnlab::reference
