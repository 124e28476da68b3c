// Schedules naive: attention as separate passes over matrices in HBM, (batch, num_heads_q,
// seqlen_q, seqlen_k) each, in the storage type.
//
//   forward                                    reads, writes of a matrix
//   1. S = softmax_scale * Q K^T               0, 1   a library's product
//   2. S = mask(S), if there is a mask         1, 1
//   3. P = softmax(S), lse                     1, 1
//   4. Pd = dropout(P), if there is dropout    1, 1
//   5. O = Pd V                                1, 0   a library's product
//
//   backward, from the P that forward saved
//   1. dP = dO V^T                             0, 1   a library's product
//   2. dP = Z dP, if there is dropout          1, 1   Z = keep_scale, or 0 where P was dropped
//   3. dS = P (dP - rowsum(P dP))              2, 1
//   4. Pd = dropout(P), if there is dropout    1, 1
//   5. dQ = softmax_scale * dS K               1, 0   a library's product
//   6. dK = softmax_scale * dS^T Q             1, 0   a library's product
//   7. dV = Pd^T dO                            1, 0   a library's product
//
// In e4m3 a forward decodes q, k and v to fp32 first, has its matrices in fp32 on a GPU and in f16
// on a CPU, and rounds O to f16.
//
// So with N = seqlen_q = seqlen_k forward moves 4 N^2 elements of a slice, 2 N^2 more for a mask
// and 2 N^2 for dropout; backward 7 N^2, and 4 N^2 for dropout; the operands of the products come
// on top, each once.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/shape.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::naive {

constexpr i64 kPanelRows = 64;   // query rows that one work item (or block of a product) works on
constexpr i64 kPanelKeys = 256;  // keys of such a block

// A pass is cut into panels of rows of every query head, or of keys of every query or K/V head.
ATTNLAB_HD constexpr WorkGrid row_panels_grid(const Shape& shape) {
  return {.batch = shape.batch,
          .heads = shape.num_heads_q,
          .blocks = ceil_div(shape.seqlen_q, kPanelRows)};
}

ATTNLAB_HD constexpr WorkGrid key_panels_grid(const Shape& shape, i64 heads) {
  return {.batch = shape.batch, .heads = heads, .blocks = ceil_div(shape.seqlen_k, kPanelKeys)};
}

// Returns a slice's panels of keys.
ATTNLAB_HD constexpr i64 key_panels(i64 seqlen_k) { return ceil_div(seqlen_k, kPanelKeys); }

// Returns a matrix's strides in elements. A packed entry uses the corner of its own rows and keys.
ATTNLAB_HD constexpr Strides matrix_strides(const Shape& shape) {
  return strides_bhsd(shape.seqlen_q, shape.num_heads_q, shape.seqlen_k);
}

ATTNLAB_HD constexpr i64 matrix_elements(const Shape& shape) {
  return shape.batch * shape.num_heads_q * shape.seqlen_q * shape.seqlen_k;
}

// On a GPU the element-wise passes are cut differently: every lane has chunks of 8 columns, 16
// bytes of a 16-bit type.

constexpr i32 kBlockThreads = 256;
constexpr i32 kChunkColumns = 8;

// Rows of a matrix are padded to whole chunks, so that all of them are aligned. What lies in the
// padding is read, never used.
ATTNLAB_HD constexpr i64 padded_keys(i64 seqlen_k) {
  return round_up<i64>(seqlen_k, kChunkColumns);
}

ATTNLAB_HD constexpr Strides padded_strides(const Shape& shape) {
  return strides_bhsd(shape.seqlen_q, shape.num_heads_q, padded_keys(shape.seqlen_k));
}

ATTNLAB_HD constexpr i64 padded_elements(const Shape& shape) {
  return shape.batch * shape.num_heads_q * shape.seqlen_q * padded_keys(shape.seqlen_k);
}

// Mask and dropout: a block has a tile of 16 rows, warp w rows w and w + 8, which share their
// Philox calls; a lane has the same 8 columns of both, and its neighbour the other 8 of 16.
constexpr i32 kTileRows = 16;
constexpr i32 kTileStep = 256;      // columns that a warp has at a time
constexpr i32 kTileColumns = 1024;  // of a block

// Softmax and its backward: a row is kept in the registers of the threads that share it, `chunks`
// chunks each; in longer rows (0 chunks) the threads go over it twice.
struct RowClass {
  i32 threads = 0;  // a warp, or a block
  i32 chunks = 0;
  ATTNLAB_HD constexpr i64 columns() const { return i64{1} * threads * chunks * kChunkColumns; }
  ATTNLAB_HD constexpr i32 rows() const { return kBlockThreads / threads; }  // of a block
};
constexpr RowClass kRowClasses[] = {
    {32, 1}, {32, 2}, {32, 4}, {32, 8}, {kBlockThreads, 2}, {kBlockThreads, 4}};
constexpr RowClass kLongRows = {kBlockThreads, 0};

ATTNLAB_HD constexpr RowClass row_class(i64 seqlen_k) {
  for (const RowClass& row_class : kRowClasses) {
    if (seqlen_k <= row_class.columns()) return row_class;
  }
  return kLongRows;
}

// RowsPlace is a block's place: rows [row, row + rows) of a slice, columns from `column` on.
struct RowsPlace {
  i64 batch = 0;
  i64 head = 0;
  i64 row = 0;
  i64 column = 0;
};

// Returns the blocks of `rows` x `columns` that cover all matrices. It fits 32 bits: what has more
// does not fit any device's memory.
ATTNLAB_HD constexpr u64 row_blocks(const Shape& shape, i64 rows, i64 columns) {
  return static_cast<u64>(shape.batch * shape.num_heads_q * ceil_div(shape.seqlen_q, rows) *
                          ceil_div(shape.seqlen_k, columns));
}

ATTNLAB_HD constexpr RowsPlace rows_place(const Shape& shape, u32 block, i64 rows, i64 columns) {
  const u32 across = static_cast<u32>(ceil_div(shape.seqlen_k, columns));
  const u32 down = static_cast<u32>(ceil_div(shape.seqlen_q, rows));
  const u32 heads = static_cast<u32>(shape.num_heads_q);
  const u32 slice = block / across / down;
  return {.batch = slice / heads,
          .head = slice % heads,
          .row = block / across % down * rows,
          .column = block % across * columns};
}

// Codes says where q, k or v of e4m3 lies (E4m3Inputs), and where its values are wanted.
struct Codes {
  const u8* codes = nullptr;
  const float* scales = nullptr;
  float* values = nullptr;
  bool is_query = false;
  bool has_channels = false;  // scales are of columns, not of kScaleRows rows
};

}  // namespace attnlab::naive
