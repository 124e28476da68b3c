// The arithmetic of CPU tiles, compiled once per instruction set and chosen at run time.
//
// A tile is a row-major fp32 matrix in fast memory. Its columns are the SIMD lanes: they are padded
// to a multiple of kTileColumns, and padding holds finite values, so that no operation has a tail.
#pragma once

#include <span>
#include <string_view>

#include "kernels/shared/base.h"

namespace attnlab::cpu {

// Lanes of the widest vector; every tile's leading dimension is a multiple of it.
inline constexpr i64 kTileColumns = 16;

// What a product does with the values that C holds.
enum class Accumulate : u8 {
  no,        // C = A B
  add,       // C += A B
  rescaled,  // C = C * column_scale + A B, one factor a column
};

// C (rows, columns) from A (rows, inner) and B (inner, columns). A's element (i, k) lies at
// a[i * a_row_stride + k * a_inner_stride], so a transposed operand costs nothing.
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

// One step of the online softmax on a transposed score tile (rows: keys, columns: query rows).
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

// destination (columns, rows) = source (rows, columns)^T; strides in elements.
struct Transpose {
  i64 rows = 0;
  i64 columns = 0;
  const float* source = nullptr;
  i64 source_stride = 0;
  float* destination = nullptr;
  i64 destination_stride = 0;
};

struct TileOps {
  const char* isa;  // avx512, avx2, sse4, sse2, neon or portable
  void (*multiply)(const Product& product);
  void (*softmax_step)(const SoftmaxStep& step);
  void (*transpose)(const Transpose& transpose);
  // Softmax of one row: probabilities[j] = exp(scores[j] - max) / sum, exactly 0 where the score is
  // -inf, all 0 if every score is. Returns the row's natural-log lse. In place is allowed.
  float (*softmax_row)(const float* scores, i64 n, float* probabilities);
};

// The variants that this processor runs, best first; the last one runs anywhere.
std::span<const TileOps* const> supported_tile_ops();

// Null if this processor does not run it (or there is no such name).
const TileOps* find_tile_ops(std::string_view isa);

}  // namespace attnlab::cpu
