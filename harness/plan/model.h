// These functions count what else a problem costs on paper, beside the FLOPs and bytes of
// accounting.h: compulsory bytes by operand, the tiles of the papers, materialized scores, the
// papers' formulas, prefill and decode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/api/problem.h"
#include "kernels/api/traffic.h"

namespace attnlab {

// Returns why FLOPs and bytes of a problem cannot be counted in 64 bits or in seconds, or "".
std::string uncountable(const Problem& problem);

// Counts the (query, key) pairs of all entries and heads, masked or not; and the visible ones.
std::int64_t score_elements(const Problem& problem);
std::int64_t visible_pairs(const Problem& problem);

// Returns the bytes of S (or of P) written out in the storage type.
std::int64_t score_bytes(const Problem& problem);

// Returns the bytes of the forward's lse: fp32, one for each row that exists.
std::int64_t lse_bytes(const Problem& problem);

// Counts every tensor of the pass once, as far as its rows exist; tiles and FLOPs stay 0. Padding:
// k and v are read as far as their keys exist, dk and dv are written whole. Both passes in one take
// q, k, v and dout in, and o, lse, dq, dk and dv out.
Traffic compulsory_traffic(const Problem& problem);

// Describes the tiles that an SM holds at once: Q and O (block_m, head_dim), K and V (block_n,
// head_dim), S (block_m, block_n), l and m (block_m). Q, K, V have the storage type, others fp32.
struct TileBytes {
  std::int64_t q = 0, k = 0, v = 0, o = 0, s = 0, l = 0, m = 0;
  std::int64_t total() const { return q + k + v + o + s + l + m; }
};
TileBytes tile_bytes(const Tiling& tiling, std::int64_t head_dim, Dtype dtype);

// Returns FlashAttention's choice (Algorithm 1, line 1) for on-chip memory of `sram_elements`:
// block_n = ceil(sram / 4d), block_m = min(block_n, d).
Tiling v1_tiling(std::int64_t sram_elements, std::int64_t head_dim);

// Counts the tiles of one head by class, over the batch; nothing if there are too many to look at.
std::optional<TileCounts> count_tiles(const Problem& problem, const Tiling& tiling);

// Holds accesses to HBM by one head, in elements, as the papers give them: orders of growth,
// without constants. Source: FlashAttention, theorem 2 and proposition 4.
struct HbmFormulas {
  double standard = 0.0;      // N d + N^2
  double flash = 0.0;         // N^2 d^2 / M
  double block_sparse = 0.0;  // N d + N^2 d^2 s / M, s: share of the blocks that are not empty
};
HbmFormulas hbm_formulas(std::int64_t seqlen, std::int64_t head_dim, std::int64_t sram_elements,
                         double block_share);

// These make the forward over the whole prompt, every query of it, and over one new query of each
// entry with all keys.
Problem prefill_of(const Problem& problem);
Problem decode_step_of(const Problem& problem);

}  // namespace attnlab
