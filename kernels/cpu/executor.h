// Executes the steps of a schedule on tiles and counts what crosses the border to HBM.
//
// A schedule is written once against this class. With tile operations it computes; without them
// (count only) every step returns after counting, so the modelled traffic comes from the very code
// that the tests run, not from a formula beside it.
#pragma once

#include "kernels/api/problem.h"
#include "kernels/api/traffic.h"
#include "kernels/cpu/tile_ops.h"
#include "kernels/shared/layout.h"
#include "kernels/shared/mask.h"

namespace attnlab::cpu {

// A tile in fast memory: fp32, row-major. `data` is null when only counting.
struct Tile {
  float* data = nullptr;
  i64 rows = 0;
  i64 columns = 0;
  i64 ld = 0;  // a multiple of kTileColumns

  // The first n rows (or columns).
  Tile top(i64 n) const { return {.data = data, .rows = n, .columns = columns, .ld = ld}; }
  Tile left(i64 n) const { return {.data = data, .rows = rows, .columns = n, .ld = ld}; }
};

// The left factor of a product: a tile, as it is or transposed.
struct LeftFactor {
  LeftFactor(const Tile& t) : tile(t) {}  // NOLINT: a tile is a factor
  LeftFactor(const Tile& t, bool transposed) : tile(t), is_transposed(transposed) {}
  Tile tile;
  bool is_transposed = false;
};
inline LeftFactor transposed(const Tile& tile) { return {tile, true}; }

// The online softmax of a tile's query rows, one value a row.
struct RowState {
  float* max = nullptr;      // in units of log2
  float* sum = nullptr;      // of exp2(score - max)
  float* rescale = nullptr;  // what the last step multiplied older sums with
};

// Rows of a tensor in HBM; columns are contiguous.
struct GlobalRows {
  Operand operand;
  void* data = nullptr;  // of the tensor
  i64 offset = 0;        // elements from `data` to the first row
  i64 row_stride = 0;
  i64 rows = 0;
  i64 columns = 0;
};

// Rows `rows` of slice (b, h) of a tensor with `head_dim` columns.
GlobalRows slice_rows(Operand operand, const void* data, const Strides& strides, i64 b, i64 h,
                      Range rows, i64 head_dim);

// `rows` entries of a statistic of one slice (lse, say), as one row of HBM; `offset` is the
// slice's.
GlobalRows statistic_row(Operand operand, const float* data, i64 offset, Range rows);

// Lays tiles out one after the other, each aligned to 64 bytes. With a null base it only adds up:
// how a schedule states how much fast memory it needs.
class TileCarver {
 public:
  explicit TileCarver(void* base) : base_(static_cast<float*>(base)) {}
  Tile tile(i64 rows, i64 columns);
  u64 bytes() const { return static_cast<u64>(used_) * sizeof(float); }

 private:
  float* base_;
  i64 used_ = 0;  // floats
};

class Executor {
 public:
  // ops null: count only.
  explicit Executor(const TileOps* ops) : ops_(ops) {}

  bool counts_only() const { return ops_ == nullptr; }
  const Traffic& traffic() const { return traffic_; }

  // HBM (fp32) -> tile; the rest of the tile (missing rows, padding columns) becomes 0.
  void load(const GlobalRows& source, const Tile& tile);
  // tile -> HBM (fp32): the destination's rows and columns.
  void store(const Tile& tile, const GlobalRows& destination);

  // Counts a tile of the attention matrix and, unless it is empty, the FLOPs of the two products of
  // the whole tile.
  void visit(TileClass tile_class, const Tiling& tiling, i64 head_dim);

  // Counts tiles that are skipped without a look.
  void skip(i64 tiles) { traffic_.tiles.empty += tiles; }

  // HBM traffic of an operand that a library call takes as a whole.
  void count_read(Operand operand, i64 bytes) { traffic_[operand].read_bytes += bytes; }
  void count_write(Operand operand, i64 bytes) { traffic_[operand].write_bytes += bytes; }
  void count_flops(i64 flops) { traffic_.executed_flops += flops; }

  // Steps on tiles: not counted, and nothing is done when counting only.
  // c = a b, or onto what c holds; with Accumulate::rescaled c's columns are first multiplied with
  // `column_scale`.
  void multiply(const LeftFactor& a, const Tile& b, const Tile& c,
                Accumulate accumulate = Accumulate::no, const float* column_scale = nullptr) const;
  // One step of the online softmax: transposed scores (keys, rows) become probabilities.
  void softmax_step(const Tile& scores, float scale_log2, const RowState& state) const;
  // scores (keys, rows) of a transposed score tile: -inf where the mask hides.
  void hide(const Mask& mask, Range rows, Range keys, const Tile& scores) const;
  // scores (1, seqlen_k) of row r: -inf where the mask hides.
  void hide_row(const Mask& mask, i64 r, const Tile& scores) const;
  // Softmax of one row in place; returns its natural-log lse (0 when counting only).
  float softmax_row(const Tile& scores) const;
  void scale(const Tile& tile, float factor) const;
  void fill(const Tile& tile, float value) const;
  // Ends the online softmax in place: state.max becomes the natural-log lse, state.sum the final
  // scale (0 for a row that saw nothing), and the accumulator (head_dim, rows) is scaled by it.
  void finish_rows(const Tile& accumulator, const RowState& state) const;
  // destination = source^T, over the source's rows and columns.
  void transpose(const Tile& source, const Tile& destination) const;

 private:
  const TileOps* ops_;
  Traffic traffic_;
};

}  // namespace attnlab::cpu
