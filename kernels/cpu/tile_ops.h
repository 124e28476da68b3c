// Does the arithmetic of CPU tiles, compiled once per instruction set and chosen at run time.
//
// A tile is a row-major fp32 matrix in fast memory. Its columns are the SIMD lanes: they are padded
// to a multiple of kTileColumns, so that no operation on tiles has a tail. Padding is read and
// written like the rest, and no result outside of it depends on what it holds.
#pragma once

#include <span>
#include <string_view>

#include "kernels/shared/dropout.h"

namespace attnlab::cpu {

// The widest vector has this many lanes; every tile's leading dimension is a multiple of it.
inline constexpr i64 kTileColumns = 16;

// Accumulate says what a product does with the values that C holds.
enum class Accumulate : u8 {
  no,        // C = A B
  add,       // C += A B
  rescaled,  // C = C * column_scale + A B, one factor a column
};

// Product makes C (rows, columns) of A (rows, inner) and B (inner, columns). A's element (i, k)
// lies at a[i * a_row_stride + k * a_inner_stride], so a transposed operand costs nothing.
struct Product {
  i64 rows = 0;
  i64 columns = 0;  // a multiple of kTileColumns
  i64 inner = 0;
  const float* a = nullptr;
  i64 a_row_stride = 0;
  i64 a_inner_stride = 1;
  const float* b = nullptr;
  i64 ldb = 0;
  float* c = nullptr;
  i64 ldc = 0;
  Accumulate accumulate = Accumulate::no;
  const float* column_scale = nullptr;  // (columns), for Accumulate::rescaled
};

// SoftmaxStep steps online softmax on a transposed score tile (rows: keys, columns: query rows).
struct SoftmaxStep {
  i64 keys = 0;
  i64 columns = 0;  // a multiple of kTileColumns
  float scale_log2 = 0.0f;
  float* scores = nullptr;  // (keys, columns): in scores, -inf where hidden; out probabilities
  i64 ld = 0;
  float* row_max = nullptr;  // (columns), in units of log2, updated
  float* row_sum = nullptr;  // (columns), updated
  float* rescale = nullptr;  // (columns): factor that brings old accumulators to the new maximum
};

// Transpose sets destination (columns, rows) = source (rows, columns)^T; strides in elements.
struct Transpose {
  i64 rows = 0;
  i64 columns = 0;
  const float* source = nullptr;
  i64 source_stride = 0;
  float* destination = nullptr;
  i64 destination_stride = 0;
};

// RecomputeP makes P of the backward from S, by query row: scores = exp2(scores * scale_log2 -
// row_max) / row_sum, exactly 0 where the score is -inf or the sum 0. (Not from lse: beyond 2^10
// its own rounding shows in P, and beyond 2^30 it leaves nothing of it.)
struct RecomputeP {
  i64 rows = 0;
  i64 columns = 0;  // a multiple of kTileColumns
  float scale_log2 = 0.0f;
  float* scores = nullptr;  // (rows, columns)
  i64 ld = 0;
  const float* row_max = nullptr;  // (rows), in units of log2
  const float* row_sum = nullptr;  // (rows), of exp2(score - max)
};

// ScoreGradient turns dP into dS = |P| (Z dP - delta): Z = keep_scale, or 0 at P's set sign bits.
struct ScoreGradient {
  i64 rows = 0;
  i64 columns = 0;           // a multiple of kTileColumns
  const float* p = nullptr;  // (rows, columns)
  i64 ldp = 0;
  float* dp = nullptr;  // (rows, columns)
  i64 lddp = 0;
  const float* delta = nullptr;  // (rows)
  float keep_scale = 1.0f;
};

// RowDots computes dots[r] = sum of a[r] * b[r].
struct RowDots {
  i64 rows = 0;
  i64 columns = 0;           // any: padding does not count
  const float* a = nullptr;  // (rows, columns)
  i64 lda = 0;
  const float* b = nullptr;  // (rows, columns)
  i64 ldb = 0;
  float* dots = nullptr;  // (rows)
};

// Orientation says what the lines of a tile of the attention matrix are, and what its columns.
enum class Orientation : u8 { rows_by_keys, keys_by_rows };

// DropAction says what becomes of the elements that dropout drops.
enum class DropAction : u8 {
  clear,  // P = 0
  mark,   // P's sign bit is set
};

// Drop applies dropout (see shared/dropout.h) to the tile of `rows` and `keys`, wherever it begins.
struct Drop {
  Dropout dropout;
  i64 slice = 0;  // batch * num_heads_q + head
  Range rows;     // query rows
  Range keys;
  Orientation orientation = Orientation::rows_by_keys;
  DropAction action = DropAction::clear;
  float* p = nullptr;  // (rows, keys) or (keys, rows)
  i64 ld = 0;
};

// HalfOps converts n values of a 16-bit storage type, with the same bits as shared/convert.h.
struct HalfOps {
  void (*decode)(const u16* from, i64 n, float* to);
  void (*encode)(const float* from, i64 n, u16* to);
  // Rounds there and back, in place; n is a multiple of kTileColumns.
  void (*round)(float* values, i64 n);
};

struct TileOps {
  const char* isa;  // avx512, avx2, sse4, sse2, neon or portable
  void (*multiply)(const Product& product);
  void (*softmax_step)(const SoftmaxStep& step);
  void (*transpose)(const Transpose& transpose);
  // Computes a row's softmax: probabilities[j] = exp(scores[j] - max) / sum, exactly 0 where the
  // score is -inf, all 0 if every score is. Returns its natural-log lse. It may work in place.
  float (*softmax_row)(const float* scores, i64 n, float* probabilities);
  void (*recompute_p)(const RecomputeP& step);
  void (*score_gradient)(const ScoreGradient& step);
  void (*row_dots)(const RowDots& step);
  void (*drop)(const Drop& drop);
  HalfOps f16;
  HalfOps bf16;
};

// Returns the variants that this processor runs, best first; the last one runs anywhere.
std::span<const TileOps* const> supported_tile_ops();

// Returns null if this processor does not run it (or there is no such name).
const TileOps* find_tile_ops(std::string_view isa);

}  // namespace attnlab::cpu
