#include "harness/plan/model.h"

#include <algorithm>
#include <map>
#include <utility>

namespace attnlab {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);

std::int64_t rows_of(const Problem& problem) {
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) rows += problem.queries(b);
  return rows;
}

std::int64_t keys_of(const Problem& problem) {
  std::int64_t keys = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) keys += problem.keys(b);
  return keys;
}

TileCounts count_entry(const Mask& mask, const Tiling& tiling) {
  TileCounts counts;
  for (i64 m_block = 0; m_block < tiling.m_blocks(mask.seqlen_q); ++m_block) {
    const Range rows =
        intersect({m_block * tiling.block_m, (m_block + 1) * tiling.block_m}, {0, mask.seqlen_q});
    const Range n_blocks = n_block_range(mask, rows, tiling.block_n);
    for (i64 n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
      const Range keys = {n_block * tiling.block_n, (n_block + 1) * tiling.block_n};
      const TileClass tile_class = classify(mask, rows, keys);
      counts.partial += tile_class == TileClass::partial ? 1 : 0;
      counts.full += tile_class == TileClass::full ? 1 : 0;
    }
  }
  counts.empty = tiling.m_blocks(mask.seqlen_q) * tiling.n_blocks(mask.seqlen_k) - counts.partial -
                 counts.full;
  return counts;
}

}  // namespace

std::string uncountable(const Problem& problem) {
  // Kernels count whole tiles of up to 1024 rows and keys, and what they request stays below a few
  // bytes a FLOP: so nothing derived overflows.
  constexpr double kLargestTile = 1024;
  constexpr double kMostFlops = 0x1p60;
  constexpr double kMostRows = 0x1p28;
  const double batch = static_cast<double>(problem.batch);
  const double rows = static_cast<double>(problem.seqlen_q) + kLargestTile;
  const double keys = static_cast<double>(problem.seqlen_k) + kLargestTile;
  const double width = static_cast<double>(problem.num_heads_q * problem.head_dim);
  if (14.0 * batch * rows * keys * width > kMostFlops) {
    return "batch * heads * seqlen_q * seqlen_k * head_dim is too large to count in 64 bits; lower "
           "--seqlen, --batch or --head-dim";
  }
  if (batch * static_cast<double>(problem.seqlen_q) > kMostRows) {
    return "batch * seqlen_q is above 2^28, too much to go through row by row; lower --batch or "
           "--seqlen";
  }
  return problem.mask.blocks
             ? unsupported_pattern(*problem.mask.blocks, problem.seqlen_q, problem.seqlen_k)
             : "";
}

std::int64_t score_elements(const Problem& problem) {
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const bool packed = problem.lengths.kind == LengthsKind::packed;
    pairs += problem.queries(b) * (packed ? problem.keys(b) : problem.seqlen_k);
  }
  return pairs * problem.num_heads_q;
}

std::int64_t visible_pairs(const Problem& problem) {
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const BlockPattern blocks = view_block_pattern(problem, pattern.data());
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) pairs += problem.visible_pairs(b, blocks);
  return pairs * problem.num_heads_q;
}

std::int64_t score_bytes(const Problem& problem) {
  return score_elements(problem) * size_bytes(problem.output_dtype());
}

std::int64_t lse_bytes(const Problem& problem) {
  return rows_of(problem) * problem.num_heads_q * kFloatBytes;
}

Traffic compulsory_traffic(const Problem& problem) {
  const std::int64_t size = size_bytes(problem.dtype);
  const std::int64_t q_bytes = problem.elements_q() * size;
  const std::int64_t k_bytes = keys_of(problem) * problem.num_heads_kv * problem.head_dim * size;
  const std::int64_t o_bytes = problem.elements_q() * size_bytes(problem.output_dtype());
  const std::int64_t dk_bytes = problem.elements_k() * size;
  Traffic traffic;
  traffic[Operand::q].read_bytes = q_bytes;
  traffic[Operand::k].read_bytes = k_bytes;
  traffic[Operand::v].read_bytes = k_bytes;
  auto& o = traffic[Operand::o];
  auto& lse = traffic[Operand::lse];
  (problem.pass == Pass::bwd ? o.read_bytes : o.write_bytes) = o_bytes;
  (problem.pass == Pass::bwd ? lse.read_bytes : lse.write_bytes) = lse_bytes(problem);
  if (problem.pass == Pass::fwd) return traffic;
  traffic[Operand::dout].read_bytes = q_bytes;
  traffic[Operand::dq].write_bytes = q_bytes;
  traffic[Operand::dk].write_bytes = dk_bytes;
  traffic[Operand::dv].write_bytes = dk_bytes;
  return traffic;
}

TileBytes tile_bytes(const Tiling& tiling, std::int64_t head_dim, Dtype dtype) {
  const std::int64_t m = tiling.block_m;
  const std::int64_t n = tiling.block_n;
  const std::int64_t size = size_bytes(dtype);
  return {.q = m * head_dim * size,
          .k = n * head_dim * size,
          .v = n * head_dim * size,
          .o = m * head_dim * kFloatBytes,
          .s = m * n * kFloatBytes,
          .l = m * kFloatBytes,
          .m = m * kFloatBytes};
}

Tiling v1_tiling(std::int64_t sram_elements, std::int64_t head_dim) {
  const std::int64_t block_n = std::max<std::int64_t>(1, ceil_div(sram_elements, 4 * head_dim));
  return {.block_m = static_cast<i32>(std::min(block_n, head_dim)),
          .block_n = static_cast<i32>(block_n)};
}

std::optional<TileCounts> count_tiles(const Problem& problem, const Tiling& tiling) {
  constexpr double kMostTiles = 0x1p26;
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const BlockPattern blocks = view_block_pattern(problem, pattern.data());
  std::map<std::pair<i64, i64>, TileCounts> counted;  // entries of equal lengths have equal tiles
  double looked_at = 0.0;
  TileCounts total;
  for (i64 b = 0; b < problem.batch; ++b) {
    const auto [place, is_new] = counted.try_emplace({problem.queries(b), problem.keys(b)});
    if (is_new) {
      const Mask mask = make_mask(problem, b, blocks);
      looked_at += static_cast<double>(tiling.m_blocks(mask.seqlen_q)) *
                   static_cast<double>(tiling.n_blocks(mask.seqlen_k));
      if (looked_at > kMostTiles) return std::nullopt;
      place->second = count_entry(mask, tiling);
    }
    total.empty += place->second.empty;
    total.partial += place->second.partial;
    total.full += place->second.full;
  }
  return total;
}

HbmFormulas hbm_formulas(std::int64_t seqlen, std::int64_t head_dim, std::int64_t sram_elements,
                         double block_share) {
  const double n = static_cast<double>(seqlen);
  const double d = static_cast<double>(head_dim);
  const double flash = n * n * d * d / static_cast<double>(sram_elements);
  return {.standard = n * d + n * n, .flash = flash, .block_sparse = n * d + flash * block_share};
}

Problem prefill_of(const Problem& problem) {
  Problem prefill = problem;
  prefill.pass = Pass::fwd;
  prefill.seqlen_q = problem.seqlen_k;
  if (problem.lengths.kind == LengthsKind::packed) prefill.lengths.queries = prefill.lengths.keys;
  return prefill;
}

Problem decode_step_of(const Problem& problem) {
  Problem step = problem;
  step.pass = Pass::fwd;
  step.seqlen_q = 1;
  if (problem.lengths.kind == LengthsKind::packed) {
    for (std::size_t b = 0; b < step.lengths.queries.size(); ++b) {
      step.lengths.queries[b] = std::min<std::int64_t>(1, step.lengths.keys[b]);
    }
  }
  return step;
}

}  // namespace attnlab
