// Executes the steps of a schedule on tiles and counts what crosses the border to HBM.
//
// A schedule is written once against this class. With tile operations it computes; without them
// (count only) every step returns after counting, so the modelled traffic comes from the very code
// that the tests run, not from a formula beside it.
#pragma once

#include "kernels/api/problem.h"
#include "kernels/api/traffic.h"
#include "kernels/cpu/tile_ops.h"
#include "kernels/shared/dropout.h"
#include "kernels/shared/layout.h"
#include "kernels/shared/mask.h"

namespace attnlab::cpu {

// Tile is a tile in fast memory: fp32, row-major. `data` is null when only counting.
struct Tile {
  float* data = nullptr;
  i64 rows = 0;
  i64 columns = 0;
  i64 ld = 0;  // a multiple of kTileColumns

  // Returns the first n rows (or columns).
  Tile top(i64 n) const { return {.data = data, .rows = n, .columns = columns, .ld = ld}; }
  Tile left(i64 n) const { return {.data = data, .rows = rows, .columns = n, .ld = ld}; }
};

// FactorA is factor A of a product: a tile, as it is or transposed.
struct FactorA {
  FactorA(const Tile& t) : tile(t) {}  // NOLINT: a tile is a factor
  FactorA(const Tile& t, bool transposed) : tile(t), is_transposed(transposed) {}
  Tile tile;
  bool is_transposed = false;
};
inline FactorA transposed(const Tile& tile) { return {tile, true}; }

// RowState is the online softmax of a tile's query rows, one value a row.
struct RowState {
  float* max = nullptr;      // in units of log2
  float* sum = nullptr;      // of exp2(score - max)
  float* rescale = nullptr;  // what the last step multiplied older sums with
};

// ScoreTile is a tile of S, P, dP or dS, and its place in the attention matrix. It has one row (or
// column) for each of `rows` and one column (or row) for each of `keys`, no more.
struct ScoreTile {
  Tile tile;
  Range rows;  // query rows
  Range keys;
  Orientation orientation = Orientation::rows_by_keys;
};

// Scales has those of e4m3's codes, of kScaleRows rows or of columns; null where there are none.
struct Scales {
  const float* data = nullptr;
  bool of_columns = false;
  i64 first_row = 0;  // that the rows of a load begin with, within the head's
};

// GlobalRows is rows of a tensor in HBM; columns are contiguous.
struct GlobalRows {
  Operand operand;
  Dtype dtype = Dtype::f32;
  void* data = nullptr;  // of the tensor
  i64 offset = 0;        // elements from `data` to the first row
  i64 row_stride = 0;
  i64 rows = 0;
  i64 columns = 0;
  Scales scales;
};

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
  // If `ops` is null it only counts.
  explicit Executor(const TileOps* ops) : ops_(ops) {}

  bool counts_only() const { return ops_ == nullptr; }
  // Returns an executor with counts of its own, for what happens inside a library call.
  Executor uncounted() const { return Executor(ops_); }
  const Traffic& traffic() const { return traffic_; }

  // Copies HBM -> tile, widened to fp32 (codes of e4m3 times their scale); the rest of the tile
  // (missing rows, padding columns) becomes 0.
  void load(const GlobalRows& source, const Tile& tile);
  // Copies tile -> HBM, rounded to the destination's type: the destination's rows and columns.
  void store(const Tile& tile, const GlobalRows& destination);
  // Adds HBM += tile, fp32; counts a read and a write. It is not atomic: callers serialise access
  // to shared rows.
  void accumulate(const Tile& tile, const GlobalRows& destination);

  // Counts a tile of the attention matrix and, unless it is empty, the FLOPs of `products` matrix
  // products of the whole tile (2 forward; 5 backward, which computes S again).
  void visit(TileClass tile_class, const Tiling& tiling, i64 head_dim, int products);

  // Counts tiles that are skipped without a look.
  void skip(i64 tiles) { traffic_.tiles.empty += tiles; }

  // Counts HBM traffic of an operand that a library call takes as a whole.
  void count_read(Operand operand, i64 bytes) { traffic_[operand].read_bytes += bytes; }
  void count_write(Operand operand, i64 bytes) { traffic_[operand].write_bytes += bytes; }
  void count_flops(i64 flops) { traffic_.executed_flops += flops; }

  // The steps below work on tiles: they are not counted, and do nothing when only counting.

  // Computes c = a b, or adds it to c; with Accumulate::rescaled c's columns are first multiplied
  // with `column_scale`.
  void multiply(const FactorA& a, const Tile& b, const Tile& c,
                Accumulate accumulate = Accumulate::no, const float* column_scale = nullptr) const;
  // Computes destination = source^T, over the source's rows and columns.
  void transpose(const Tile& source, const Tile& destination) const;
  void scale(const Tile& tile, float factor) const;
  void fill(const Tile& tile, float value) const;
  // Rounds to a storage type and back: what a product that takes this type as its operand sees. To
  // e4m3 only P is rounded, shifted by 2^kShiftOfP and back.
  void round(const Tile& tile, Dtype dtype) const;

  // Sets S = -inf where the mask hides.
  void hide(const Mask& mask, const ScoreTile& scores) const;
  // Sets P = 0 where dropout drops; slice = batch * num_heads_q + head. The scale of what is kept
  // is left to the caller.
  void drop(const Dropout& dropout, i64 slice, const ScoreTile& p) const;

  // Does a step of the forward's online softmax: scores^T (keys, rows) become probabilities.
  void softmax_step(const Tile& scores, float scale_log2, const RowState& state) const;
  // Ends the online softmax in place: state.max becomes the natural-log lse, state.sum the final
  // scale (0 for a row that saw nothing), and the accumulator (head_dim, rows) is scaled by it and
  // by `keep_scale`.
  void finish_rows(const Tile& accumulator, const RowState& state, const Shape& shape,
                   float keep_scale = 1.0f) const;
  // Computes softmax of one row in place; returns its natural-log lse (0 when only counting).
  float softmax_row(const Tile& scores) const;

  // The backward's steps take (rows, keys) tiles; `state` and `delta` hold one value a query row.
  // Turns S into P = exp2(scale_log2 * S - max) / sum, exactly 0 where S is -inf or the sum 0.
  void recompute_p(const Tile& scores, float scale_log2, const RowState& state) const;
  // Sets the sign bit of the elements of P that dropout drops: one pass over the generator serves
  // score_gradient(), which needs P and the mask, and clear_dropped().
  void mark_dropped(const Dropout& dropout, i64 slice, const ScoreTile& p) const;
  // Turns dP = dO V^T into dS = |P| (Z dP - delta): Z = keep_scale, or 0 where P's sign bit is set.
  void score_gradient(const Tile& p, const Tile& dp, const float* delta, float keep_scale) const;
  // Sets P = 0 where its sign bit is set.
  void clear_dropped(const Tile& p) const;
  // Computes dots[r] = sum of a[r] * b[r], for each row of a.
  void row_dots(const Tile& a, const Tile& b, float* dots) const;

 private:
  const TileOps* ops_;
  Traffic traffic_;
};

}  // namespace attnlab::cpu
