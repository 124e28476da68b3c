#include "reference/mask.h"

#include <bit>
#include <stdexcept>

namespace attnlab::reference {
namespace {

bool window_allows(const WindowSpec& window, std::int64_t diagonal, std::int64_t c) {
  const bool left = window.left == -1 || c >= diagonal - window.left;
  const bool right = window.right == -1 || c <= diagonal + window.right;
  return left && right;
}

bool blocks_allow(const BlocksSpec& blocks, std::int64_t r, std::int64_t c) {
  if (blocks.pattern != "butterfly") {
    throw std::invalid_argument("the oracle knows no block pattern '" + blocks.pattern + "'");
  }
  const auto i = static_cast<std::uint64_t>(r / blocks.block_q);
  const auto j = static_cast<std::uint64_t>(c / blocks.block_k);
  return i == j || std::has_single_bit(i ^ j);
}

}  // namespace

std::int64_t rows_in_memory(const Problem& problem, std::int64_t b) {
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  return packed ? problem.lengths.queries[static_cast<std::size_t>(b)] : problem.seqlen_q;
}

std::int64_t keys_in_memory(const Problem& problem, std::int64_t b) {
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  return packed ? problem.lengths.keys[static_cast<std::size_t>(b)] : problem.seqlen_k;
}

bool key_is_visible(const Problem& problem, std::int64_t b, std::int64_t r, std::int64_t c) {
  const MaskSpec& mask = problem.mask;
  const std::int64_t diagonal = r + keys_in_memory(problem, b) - rows_in_memory(problem, b);
  if (mask.causal && c > diagonal) return false;
  if (mask.window && !window_allows(*mask.window, diagonal, c)) return false;
  const bool padded = problem.lengths.kind == LengthsKind::padding;
  if (padded && c >= problem.lengths.keys[static_cast<std::size_t>(b)]) return false;
  return !mask.blocks || blocks_allow(*mask.blocks, r, c);
}

}  // namespace attnlab::reference
